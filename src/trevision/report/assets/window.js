"use strict";
// A long list of which only what is near the window of `scroller` is in the document.
const windowed = (scroller, container, build) => {
  // Few at once, so that no frame has to wait for many rows.
  const ROWS = 8;
  let items = [];
  let size = ROWS;
  let height = 90;

  const start = (chunk) => Number(chunk.dataset.start);
  const fill = (chunk) => {
    if (chunk.children.length) return;
    chunk.replaceChildren(...items.slice(start(chunk), start(chunk) + size).map((item, place) => {
      const row = build(item);
      row.setAttribute("aria-rowindex", String(start(chunk) + place + 2));
      return row;
    }));
    chunk.style.height = "";
  };
  const empty = (chunk, seen) => {
    // What has the focus stays, or the keys would have nothing to act on.
    if (!chunk.children.length || chunk.contains(document.activeElement)) return;
    chunk.style.height = `${seen}px`;
    chunk.replaceChildren();
  };
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.target.isConnected) continue;
      if (entry.isIntersecting) fill(entry.target);
      else empty(entry.target, entry.boundingClientRect.height);
    }
  }, { root: scroller, rootMargin: "900px 0px" });

  const show = (shown, columns = 1, rowHeight = 90) => {
    items = shown;
    size = columns * Math.max(1, Math.round(ROWS / columns));
    height = rowHeight;
    observer.disconnect();
    const chunks = [];
    for (let from = 0; from < items.length; from += size) {
      const chunk = make("div", "chunk");
      chunk.setAttribute("role", "rowgroup");
      chunk.dataset.start = from;
      chunk.style.height = `${Math.ceil(Math.min(size, items.length - from) / columns) * height}px`;
      chunks.push(chunk);
    }
    container.replaceChildren(...chunks);
    for (const chunk of chunks.slice(0, 3)) fill(chunk);
    for (const chunk of chunks) observer.observe(chunk);
  };
  // The row at a place of the list, put into the document if it is not there.
  const rowAt = (place) => {
    const chunk = container.children[Math.floor(place / size)];
    if (!chunk) return null;
    fill(chunk);
    return chunk.children[place - start(chunk)];
  };
  return { show, rowAt };
};
