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
  // What is seen is filled at once. What lies near is filled before it is seen, a chunk at a time, and not while
  // the list jumps: who drags it past thousands of rows waits for those that show, and for no more.
  const JUMPING = 100;
  const FRAME = 16;
  const near = new Set();
  let timer = 0;
  const fillNear = () => {
    const [next] = near;
    near.delete(next);
    if (next?.isConnected) fill(next);
    timer = near.size ? setTimeout(fillNear, FRAME) : 0;
  };
  // A busy browser tells of several frames at once: only where a chunk is now matters.
  const latest = (entries) => [...new Map(entries.map((entry) => [entry.target, entry])).values()];
  const inside = new IntersectionObserver((entries) => {
    const empties = latest(entries).filter(({ target, isIntersecting }) => isIntersecting && target.isConnected && !target.children.length);
    if (!empties.length) return;
    for (const { target } of empties) fill(target);
    clearTimeout(timer);
    timer = setTimeout(fillNear, JUMPING);
  }, { root: scroller });
  const around = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting, boundingClientRect } of latest(entries)) {
      if (isIntersecting) near.add(target);
      else {
        near.delete(target);
        if (target.isConnected) empty(target, boundingClientRect.height);
      }
    }
    timer ||= setTimeout(fillNear, FRAME);
  }, { root: scroller, rootMargin: "900px 0px" });

  const show = (shown, columns = 1, rowHeight = 90) => {
    items = shown;
    size = columns * Math.max(1, Math.round(ROWS / columns));
    height = rowHeight;
    inside.disconnect();
    around.disconnect();
    near.clear();
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
    for (const chunk of chunks) {
      inside.observe(chunk);
      around.observe(chunk);
    }
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
