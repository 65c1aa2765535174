"use strict";
// The review: a filtered, sorted list shown a page at a time, decisions by key or button, progress kept.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { classes, suspects, pictures, fields } = data;
  const total = suspects.row.length;
  if (!total) return;
  // Rows in the document at once, however many there are to review.
  const PAGE = 50;
  // Fields of a row that are shown before a person asks for the others.
  const FIRST_FIELDS = 5;
  const byId = (id) => document.getElementById(id);
  const rows = byId("rows");
  const nameOf = (index) => suspects.name[index] ?? String(suspects.row[index]);
  const titleOf = (index) => (suspects.name[index] === null ? `Row ${suspects.row[index]}` : suspects.name[index]);

  // A decision is [kind, class]: accept, keep and change have a class, skip has none.
  const decisions = new Map();
  const past = [];
  let view = [];
  let page = 0;
  let cursor = 0;

  // ---- progress kept in the browser
  const keep = (store) => {
    try {
      store();
      byId("not-kept").hidden = true;
      return true;
    } catch {
      byId("not-kept").hidden = false;
      return false;
    }
  };
  let kept = keep(() => {
    const isClass = (code) => Number.isInteger(code) && code >= 0 && code < classes.length;
    for (const [index, kind, code] of JSON.parse(localStorage.getItem(data.key) ?? "[]")) {
      const known = kind === "skip" || (["accept", "keep", "change"].includes(kind) && isClass(code));
      if (index in suspects.row && known) decisions.set(index, [kind, code]);
    }
  });
  const save = () => {
    const stored = JSON.stringify([...decisions].map(([index, decision]) => [index, ...decision]));
    kept = keep(() => localStorage.setItem(data.key, stored));
  };
  window.addEventListener("beforeunload", (event) => {
    if (!kept && decisions.size) event.preventDefault();
  });

  // ---- small builders; text goes in as text, never as markup
  const make = (tag, className, ...children) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...children);
    return element;
  };
  const cell = (className, label, ...children) => {
    const element = make("td", className, ...children);
    element.setAttribute("role", "cell");
    element.dataset.label = label;
    return element;
  };
  const action = (kind, hint, ...children) => {
    const button = make("button", "action", ...children);
    button.type = "button";
    button.dataset.action = kind;
    button.title = hint;
    return button;
  };

  const fieldList = (index) => {
    if (!fields || index >= fields.rows.length) return [];
    const list = make("dl", "fields");
    fields.columns.forEach((column, position) => {
      const pair = make("div", "", make("dt", "", column), make("dd", "", fields.rows[index][position]));
      pair.hidden = position >= FIRST_FIELDS;
      list.append(pair);
    });
    if (fields.columns.length <= FIRST_FIELDS) return [list];
    return [list, action("fields", "Show every field", `${fields.columns.length - FIRST_FIELDS} more fields`)];
  };

  const picture = (index) => {
    if (!pictures || index >= pictures.encoded.length) return [];
    const image = make("img", pictures.pixels <= 32 ? "pixels" : "");
    image.alt = "";
    image.src = `data:${pictures.mime};base64,${pictures.encoded[index]}`;
    return [image];
  };

  const outcome = (index) => {
    const [kind, code] = decisions.get(index) ?? [null];
    if (kind === null) return "";
    if (kind === "skip") return "Skipped";
    return kind === "keep" ? `Kept ${classes[code]}` : `Changed to ${classes[code]}`;
  };

  const buildRow = (index) => {
    const given = classes[suspects.given[index]];
    const suggested = classes[suspects.suggested[index]];
    const share = suspects.pSuggested[index];
    const meter = make("meter", "");
    meter.value = share;
    meter.setAttribute("aria-hidden", "true");
    const about = make("div", "about", make("span", "name", titleOf(index)), ...fieldList(index));
    if (suspects.name[index] !== null) about.querySelector(".name").title = titleOf(index);
    const row = make("tr", "suspect",
      cell("what", "", make("div", "shown", ...picture(index), about)),
      cell("given", "Given", make("span", "label", given)),
      cell("suggested", "Suggested", make("span", "label", suggested)),
      cell("probability", "Probability", make("span", "value", share > 0.995 ? ">99%" : `${(100 * share).toFixed(0)}%`), meter),
      cell("decision", "",
        make("div", "actions",
          action("accept", "Key A", "Use ", make("b", "", suggested)),
          action("keep", "Key K", "Keep ", make("b", "", given)),
          action("skip", "Key S", "Skip"),
          action("change", "Key C", "Other…")),
        make("p", "outcome")));
    row.setAttribute("role", "row");
    row.dataset.index = index;
    row.tabIndex = -1;
    return row;
  };

  const rowOf = (index) => rows.querySelector(`tr[data-index="${index}"]`);

  const refreshRow = (row) => {
    const decision = decisions.get(Number(row.dataset.index));
    row.dataset.state = decision?.[0] ?? "open";
    row.querySelector(".outcome").textContent = outcome(Number(row.dataset.index));
    for (const button of row.querySelectorAll(".actions button")) {
      button.setAttribute("aria-pressed", String(button.dataset.action === decision?.[0]));
    }
  };

  // ---- what is shown
  const decidedCount = () => [...decisions.values()].filter(([kind]) => kind !== "skip").length;

  const refreshProgress = () => {
    const decided = decidedCount();
    byId("progress-text").textContent =
      `${decided.toLocaleString("en")} of ${total.toLocaleString("en")} decided`
      + (decisions.size > decided ? `, ${(decisions.size - decided).toLocaleString("en")} skipped` : "");
    byId("progress-bar").value = decided;
    byId("download").disabled = decided === 0;
    byId("undo").disabled = past.length === 0;
  };

  const markCursor = () => {
    for (const row of rows.rows) {
      const current = Number(row.dataset.index) === view[cursor];
      row.tabIndex = current ? 0 : -1;
      if (current) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  };

  const showPage = () => {
    const pages = Math.max(1, Math.ceil(view.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    rows.replaceChildren(...view.slice(page * PAGE, (page + 1) * PAGE).map(buildRow));
    for (const row of rows.rows) refreshRow(row);
    markCursor();
    byId("nothing").hidden = view.length > 0;
    const [from, to] = [Math.min(page * PAGE + 1, view.length), Math.min((page + 1) * PAGE, view.length)];
    byId("page-text").textContent =
      `${from.toLocaleString("en")} to ${to.toLocaleString("en")} of ${view.length.toLocaleString("en")}`;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page === pages - 1;
  };

  const moveTo = (position, focus = true) => {
    if (!view.length) return;
    cursor = Math.min(Math.max(position, 0), view.length - 1);
    const wanted = Math.floor(cursor / PAGE);
    if (wanted !== page) {
      page = wanted;
      showPage();
    } else {
      markCursor();
    }
    if (focus) rowOf(view[cursor]).focus();
  };

  // ---- filter and sort
  const states = {
    all: () => true,
    open: (index) => !decisions.has(index),
    skipped: (index) => decisions.get(index)?.[0] === "skip",
    decided: (index) => decisions.has(index) && decisions.get(index)[0] !== "skip",
  };
  const inWords = new Intl.Collator("en", { numeric: true });
  const classOrder = (column) => (a, b) => suspects[column][a] - suspects[column][b];
  const orders = {
    rank: () => 0,
    unsure: (a, b) => b - a,
    row: (a, b) => suspects.row[a] - suspects.row[b],
    name: (a, b) => inWords.compare(nameOf(a), nameOf(b)),
    given: classOrder("given"),
    suggested: classOrder("suggested"),
  };
  const announce = (text) => { byId("announce").textContent = text; };

  const select = () => {
    const [given, suggested] = [byId("filter-given").value, byId("filter-suggested").value];
    const inState = states[byId("filter-state").value];
    view = [...Array(total).keys()].filter((index) =>
      (given === "" || suspects.given[index] === Number(given))
      && (suggested === "" || suspects.suggested[index] === Number(suggested))
      && inState(index));
    // Sorting is stable: within equal ones the most suspicious stay first.
    view.sort(orders[byId("sort").value]);
    byId("clear-filters").hidden = given === "" && suggested === "" && byId("filter-state").value === "all";
    page = 0;
    cursor = 0;
    showPage();
    announce(`${view.length.toLocaleString("en")} suspect labels shown.`);
  };

  const fillFilter = (id, column) => {
    const counts = new Map();
    for (const code of suspects[column]) counts.set(code, (counts.get(code) ?? 0) + 1);
    const options = [...counts].sort((a, b) => a[0] - b[0]).map(([code, n]) => new Option(`${classes[code]} (${n})`, code));
    byId(id).replaceChildren(new Option("any", ""), ...options);
  };

  const setFilters = (given, suggested) => {
    byId("filter-given").value = given;
    byId("filter-suggested").value = suggested;
    byId("filter-state").value = "all";
    select();
  };

  // ---- decisions
  const record = (index, decision) => {
    if (decision) decisions.set(index, decision);
    else decisions.delete(index);
    save();
    const row = rowOf(index);
    if (row) refreshRow(row);
    refreshProgress();
  };

  const decide = (index, kind, code) => {
    past.push([index, decisions.get(index)]);
    record(index, kind === "skip" ? ["skip"] : [kind, code]);
    announce(`${titleOf(index)}: ${outcome(index)}. ${byId("progress-text").textContent}.`);
    moveTo(view.indexOf(index) + 1);
  };

  const undo = () => {
    const last = past.pop();
    if (!last) return;
    const [index, before] = last;
    record(index, before);
    announce(`${titleOf(index)}: undone. ${byId("progress-text").textContent}.`);
    const position = view.indexOf(index);
    if (position >= 0) moveTo(position);
  };

  const chooser = byId("choose");
  const openChooser = (index) => {
    byId("choose-about").textContent = `${titleOf(index)}, labelled ${classes[suspects.given[index]]}`;
    byId("choose-class").value = String(decisions.get(index)?.[1] ?? suspects.suggested[index]);
    chooser.dataset.index = index;
    chooser.returnValue = "cancel";
    chooser.showModal();
    byId("choose-class").focus();
  };
  const settleChoice = () => {
    const index = Number(chooser.dataset.index);
    if (byId("choose-class").value !== "") settle(index, Number(byId("choose-class").value));
    else rowOf(index)?.focus();
  };
  // From the keyboard at once: the next key may arrive before the dialog tells that it has closed.
  const choose = () => {
    chooser.close("settled");
    settleChoice();
  };
  chooser.addEventListener("close", () => {
    if (chooser.returnValue === "choose") settleChoice();
    else if (chooser.returnValue !== "settled") rowOf(Number(chooser.dataset.index))?.focus();
  });
  byId("choose-class").addEventListener("dblclick", choose);
  byId("choose-class").addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      choose();
    }
  });

  // Whatever way a class was arrived at, its kind says what it means.
  const settle = (index, code) => {
    if (code === suspects.given[index]) decide(index, "keep", code);
    else decide(index, code === suspects.suggested[index] ? "accept" : "change", code);
  };

  const act = (index, name) => {
    if (name === "accept") settle(index, suspects.suggested[index]);
    else if (name === "keep") settle(index, suspects.given[index]);
    else if (name === "skip") decide(index, "skip");
    else if (name === "change") openChooser(index);
  };

  rows.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    const button = event.target.closest("button");
    const index = Number(row?.dataset.index);
    if (!row) return;
    if (button?.dataset.action === "fields") {
      for (const pair of row.querySelectorAll(".fields > div")) pair.hidden = false;
      button.remove();
      row.focus();
      return;
    }
    moveTo(view.indexOf(index), !button);
    if (button) act(index, button.dataset.action);
  });

  const keys = { a: "accept", k: "keep", s: "skip", c: "change" };
  byId("review").addEventListener("keydown", (event) => {
    // Letters are ours only inside this section, and never while a control wants to be typed into.
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, dialog")) return;
    const key = event.key.toLowerCase();
    if (key === "u") undo();
    else if (key in keys && view.length) act(view[cursor], keys[key]);
    else if (event.key === "ArrowDown") moveTo(cursor + 1);
    else if (event.key === "ArrowUp") moveTo(cursor - 1);
    else return;
    event.preventDefault();
  });

  rows.addEventListener("focusin", (event) => {
    const position = view.indexOf(Number(event.target.closest("tr").dataset.index));
    if (position !== cursor) moveTo(position, false);
  });

  byId("undo").addEventListener("click", undo);
  byId("previous").addEventListener("click", () => moveTo((page - 1) * PAGE));
  byId("next").addEventListener("click", () => moveTo((page + 1) * PAGE));
  byId("clear-filters").addEventListener("click", () => setFilters("", ""));
  for (const id of ["filter-given", "filter-suggested", "filter-state", "sort"]) byId(id).addEventListener("change", select);

  byId("download").addEventListener("click", () => {
    const lines = [...decisions].filter(([, [kind]]) => kind !== "skip").sort((a, b) => a[0] - b[0])
      .map(([index, [kind, code]]) => [suspects.row[index], nameOf(index), classes[suspects.given[index]], classes[code], kind]);
    downloadText(data.file, csvText([["row", "name", "given", "corrected", "decision"], ...lines]));
    announce(`${lines.length.toLocaleString("en")} decided rows downloaded as ${data.file}.`);
  });

  const startReview = () => {
    byId("review").scrollIntoView();
    moveTo(cursor);
  };
  document.querySelector("[data-start-review]").addEventListener("click", startReview);
  for (const button of document.querySelectorAll("[data-given]")) {
    button.addEventListener("click", () => {
      setFilters(String(classes.indexOf(button.dataset.given)), String(classes.indexOf(button.dataset.suggested)));
      startReview();
    });
  }

  fillFilter("filter-given", "given");
  fillFilter("filter-suggested", "suggested");
  byId("choose-class").replaceChildren(...classes.map((name, code) => new Option(name, code)));
  select();
  refreshProgress();
  // Continue where the last visit stopped.
  const open = view.findIndex((index) => !decisions.has(index));
  if (open > 0) moveTo(open, false);
  announce("");
})();
