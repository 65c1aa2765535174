"use strict";
// The audit: one row at a time, a key for each class, the given label only after the answer, progress kept.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { classes, pictures, fields } = data;
  const total = data.row.length;
  const byId = (id) => document.getElementById(id);
  // Classes beyond these keys are chosen from a list.
  const KEYS = "123456789abcdefghijklmnopqrstuvwxyz";
  const CANNOT_TELL = -1;

  // Answers by the number of the row, so that a longer plan of the same draw keeps them.
  const answers = new Map();
  const past = [];
  let cursor = 0;

  let kept = true;
  const keep = (store) => {
    try {
      store();
      kept = true;
    } catch {
      kept = false;
    }
    byId("not-kept").hidden = kept;
  };
  keep(() => {
    for (const [row, code] of JSON.parse(localStorage.getItem(data.key) ?? "[]")) {
      if (Number.isInteger(code) && code >= CANNOT_TELL && code < classes.length) answers.set(row, code);
    }
  });
  const save = () => keep(() => localStorage.setItem(data.key, JSON.stringify([...answers])));
  window.addEventListener("beforeunload", (event) => {
    if (!kept && answers.size) event.preventDefault();
  });

  const make = (tag, className, ...children) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...children);
    return element;
  };
  const titleOf = (index) => data.title[index] ?? `Row ${data.row[index]}`;
  const nameOf = (code) => (code === CANNOT_TELL ? "cannot tell" : classes[code]);
  const answered = () => data.row.filter((row) => answers.has(row)).length;
  const firstOpen = (from) => {
    for (let step = 0; step < total; step++) {
      const index = (from + step) % total;
      if (!answers.has(data.row[index])) return index;
    }
    return -1;
  };

  const contents = (index) => {
    const shown = [];
    if (pictures) {
      const image = make("img", pictures.pixels <= 32 ? "pixels" : "");
      image.alt = "";
      image.src = `data:${pictures.mime};base64,${pictures.encoded[index]}`;
      shown.push(image);
    }
    if (fields) {
      shown.push(make("dl", "fields", ...fields.columns.map((column, place) =>
        make("div", "", make("dt", "", column), make("dd", "", fields.rows[index][place])))));
    }
    return shown;
  };

  const outcome = (index) => {
    const code = answers.get(data.row[index]);
    if (code === undefined) return "";
    const given = data.given[index];
    const verdict = code === CANNOT_TELL ? "" : code === given ? "The label is right: " : "The label is wrong: ";
    return `You said ${nameOf(code)}. ${verdict}it was given ${classes[given]}; the model suggests ${classes[data.suggested[index]]}.`;
  };

  const refresh = (focus = true) => {
    byId("title").textContent = `${cursor + 1} of ${total}: ${titleOf(cursor)}`;
    byId("shown").replaceChildren(...contents(cursor));
    byId("outcome").textContent = outcome(cursor);
    const mine = answers.get(data.row[cursor]);
    for (const button of byId("answers").children) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.code) === mine));
    }
    const done = answered();
    byId("progress-text").textContent = `${done} of ${total} answered`;
    byId("progress-bar").value = done;
    byId("download").disabled = done === 0;
    byId("undo").disabled = past.length === 0;
    if (focus) byId("card").focus({ preventScroll: true });
  };

  const announce = (text) => { byId("announce").textContent = text; };

  const answer = (code) => {
    const index = cursor;
    past.push([index, answers.get(data.row[index])]);
    answers.set(data.row[index], code);
    save();
    const next = firstOpen(index + 1);
    if (next >= 0) cursor = next;
    refresh();
    announce(`${titleOf(index)}: ${outcome(index)} ${byId("progress-text").textContent}.`);
  };

  const undo = () => {
    const last = past.pop();
    if (!last) return;
    const [index, before] = last;
    if (before === undefined) answers.delete(data.row[index]);
    else answers.set(data.row[index], before);
    save();
    cursor = index;
    refresh();
    announce(`${titleOf(index)}: undone.`);
  };

  const download = () => {
    const lines = data.row.flatMap((row, index) => {
      const code = answers.get(row);
      if (code === undefined) return [];
      const told = code !== CANNOT_TELL;
      return [[data.plan, row, data.name[index], classes[data.given[index]], told ? classes[code] : "", told ? "yes" : "no"]];
    });
    downloadText(data.file, csvText([data.columns, ...lines]));
    announce(`${lines.length} answers downloaded as ${data.file}.`);
  };

  const button = (code, key) => {
    const one = make("button", "quiet", ...(key ? [make("kbd", "", key), " "] : []), nameOf(code));
    one.type = "button";
    one.dataset.code = code;
    one.addEventListener("click", () => answer(code));
    return one;
  };
  byId("answers").replaceChildren(
    ...classes.slice(0, KEYS.length).map((_, code) => button(code, KEYS[code].toUpperCase())), button(CANNOT_TELL, "0"));
  if (classes.length > KEYS.length) {
    byId("choose-line").hidden = false;
    byId("other").replaceChildren(...classes.slice(KEYS.length).map((name, place) => new Option(name, place + KEYS.length)));
    byId("take").addEventListener("click", () => answer(Number(byId("other").value)));
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey && event.key === "Enter") download();
    else if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select")) return;
    else if (event.key === "Backspace") undo();
    else if (event.key === "0") answer(CANNOT_TELL);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      cursor = Math.min(Math.max(cursor + (event.key === "ArrowRight" ? 1 : -1), 0), total - 1);
      refresh();
    } else {
      const code = event.key.length === 1 ? KEYS.indexOf(event.key.toLowerCase()) : -1;
      if (code < 0 || code >= classes.length) return;
      answer(code);
    }
    event.preventDefault();
  });
  byId("undo").addEventListener("click", undo);
  byId("download").addEventListener("click", download);

  // Continue where the last visit stopped.
  cursor = Math.max(firstOpen(0), 0);
  refresh();
})();
