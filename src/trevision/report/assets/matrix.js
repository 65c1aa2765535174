"use strict";
// The value under the pointer or the focus, in words and with its error bar; the rest of the mix-ups.
(() => {
  const { names, values, low, high } = JSON.parse(document.getElementById("data").textContent).matrix;
  const readout = document.getElementById("readout");
  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  let marked = null;

  const errorBar = (value, from, to) => {
    const make = (tag, attributes) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, text] of Object.entries(attributes)) element.setAttribute(name, text);
      return element;
    };
    const at = (share) => 6 + 188 * Math.min(Math.max(share, 0), 1);
    const svg = make("svg", { viewBox: "0 0 200 16", width: 200, height: 16, "aria-hidden": "true" });
    svg.append(
      make("line", { x1: 6, x2: 194, y1: 8, y2: 8, class: "track" }),
      make("line", { x1: at(from), x2: at(to), y1: 8, y2: 8, class: "interval" }),
      make("circle", { cx: at(value), cy: 8, r: 4, class: "estimate" }),
    );
    return svg;
  };

  const tell = (cell) => {
    const [i, j] = [cell.parentElement.rowIndex - 1, cell.cellIndex - 1];
    const value = values[i][j];
    const strong = document.createElement("strong");
    strong.textContent = percent(value);
    const line = document.createElement("p");
    line.append("Truly ", Object.assign(document.createElement("b"), { textContent: names[i] }), ", labelled ",
      Object.assign(document.createElement("b"), { textContent: names[j] }), ": ", strong);
    if (low) {
      line.append(` (${percent(low[i][j])} to ${percent(high[i][j])}) `, errorBar(value, low[i][j], high[i][j]));
    }
    readout.replaceChildren(line);
    marked?.classList.remove("marked");
    cell.classList.add("marked");
    marked = cell;
  };

  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const table = document.getElementById("transition");
  // One stop of the tab key for the matrix; inside it the arrow keys move.
  table.tBodies[0].rows[0].cells[1].tabIndex = 0;
  table.addEventListener("pointerover", (event) => {
    const cell = event.target.closest("tbody td");
    if (cell) tell(cell);
  });
  table.addEventListener("focusin", (event) => tell(event.target));
  table.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move) return;
    const cell = event.target;
    const next = table.tBodies[0].rows[cell.parentElement.rowIndex - 1 + move[0]]?.cells[cell.cellIndex + move[1]];
    event.preventDefault();
    if (next?.tagName !== "TD") return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  const more = document.getElementById("show-pairs");
  if (more) {
    const rows = document.getElementById("more-pairs");
    rows.hidden = true;
    more.hidden = false;
    const words = more.textContent;
    more.addEventListener("click", () => {
      rows.hidden = !rows.hidden;
      more.setAttribute("aria-expanded", String(!rows.hidden));
      more.textContent = rows.hidden ? words : "Show only the ten most frequent";
    });
  }
})();
