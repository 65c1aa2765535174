"use strict";
// The review: a filtered, sorted list, decisions by key or button, every one to be undone, progress kept.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { classes, suspects, pictures, fields } = data;
  const total = suspects.row.length;
  if (!total) return;
  const byId = (id) => document.getElementById(id);
  const rows = byId("rows");
  const pane = byId("pane");
  const { build, titleOf, alikeList, hasAlike } = rowBuilder(data);
  const nameOf = (index) => suspects.name[index] ?? String(suspects.row[index]);
  const inEnglish = (number) => number.toLocaleString("en");

  // A decision is [kind, class]: accept, keep and change have a class, skip has none.
  const decisions = new Map();
  // What can be undone: for each step the rows it decided, each with its decision before.
  const past = [];
  let view = [];
  let placeOf = new Map();
  let cursor = 0;
  let columns = 1;
  let showsAlike = false;

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

  // ---- what a row shows
  const outcome = (index) => {
    const [kind, code] = decisions.get(index) ?? [null];
    if (kind === null) return "";
    if (kind === "skip") return "Skipped";
    return kind === "keep" ? `Kept ${classes[code]}` : `Changed to ${classes[code]}`;
  };
  const refreshRow = (row) => {
    const index = Number(row.dataset.index);
    const decision = decisions.get(index);
    row.dataset.state = decision?.[0] ?? "open";
    row.querySelector(".outcome").textContent = outcome(index);
    for (const button of row.querySelectorAll(".action:not([data-action=fields], [data-action=alike])")) {
      button.setAttribute("aria-pressed", String(button.dataset.action === decision?.[0]));
    }
    const current = placeOf.get(index) === cursor;
    row.tabIndex = current ? 0 : -1;
    if (current) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
    for (const button of row.querySelectorAll("button")) button.tabIndex = current ? 0 : -1;
    const panel = row.querySelector(".alikes");
    const wanted = current && showsAlike && hasAlike(index);
    if (wanted && !panel) row.append(alikeList(index));
    else if (!wanted) panel?.remove();
    row.querySelector("[data-action=alike]")?.setAttribute("aria-expanded", String(wanted));
  };
  const list = windowed(pane, rows, (index) => {
    const row = build(index);
    refreshRow(row);
    return row;
  });
  const rowOf = (index) => rows.querySelector(`.suspect[data-index="${index}"]`);
  const refresh = (index) => {
    const row = rowOf(index);
    if (row) refreshRow(row);
  };

  const decidedCount = () => [...decisions.values()].filter(([kind]) => kind !== "skip").length;
  const refreshProgress = () => {
    const decided = decidedCount();
    byId("progress-text").textContent = `${inEnglish(decided)} of ${inEnglish(total)} decided`
      + (decisions.size > decided ? `, ${inEnglish(decisions.size - decided)} skipped` : "");
    byId("progress-bar").value = decided;
    byId("download").disabled = decided === 0;
    byId("undo").disabled = past.length === 0;
  };
  const announce = (text) => { byId("announce").textContent = text; };

  // ---- the cursor
  const moveTo = (place, focus = true) => {
    if (!view.length) return;
    const before = view[cursor];
    cursor = Math.min(Math.max(place, 0), view.length - 1);
    const row = list.rowAt(cursor);
    if (before !== undefined) refresh(before);
    refreshRow(row);
    if (!focus) return;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  };

  // ---- filter, search and sort
  const states = {
    all: () => true,
    open: (index) => !decisions.has(index),
    skipped: (index) => decisions.get(index)?.[0] === "skip",
    decided: (index) => decisions.has(index) && decisions.get(index)[0] !== "skip",
  };
  const inWords = new Intl.Collator("en", { numeric: true });
  const byClass = (column) => (a, b) => suspects[column][a] - suspects[column][b];
  const orders = {
    rank: () => 0,
    unsure: (a, b) => b - a,
    row: (a, b) => suspects.row[a] - suspects.row[b],
    name: (a, b) => inWords.compare(nameOf(a), nameOf(b)),
    given: byClass("given"),
    suggested: byClass("suggested"),
  };
  const texts = [];
  const textOf = (index) => {
    texts[index] ??= [titleOf(index), ...(fields?.rows[index] ?? [])].join("\n").toLowerCase();
    return texts[index];
  };

  const isGrid = () => rows.classList.contains("grid");
  const layOut = () => {
    const zoom = Number(byId("zoom")?.value ?? 0);
    rows.style.setProperty("--zoom", `${zoom}px`);
    columns = isGrid() ? Math.max(1, Math.floor(rows.clientWidth / (zoom + 28))) : 1;
    rows.style.setProperty("--columns", String(columns));
    list.show(view, columns, isGrid() ? zoom + 110 : fields?.texts ? 110 : 90);
    list.rowAt(cursor);
  };

  const select = () => {
    const [given, suggested] = [byId("filter-given").value, byId("filter-suggested").value];
    const inState = states[byId("filter-state").value];
    const wanted = byId("search").value.trim().toLowerCase();
    view = [...Array(total).keys()].filter((index) =>
      (given === "" || suspects.given[index] === Number(given))
      && (suggested === "" || suspects.suggested[index] === Number(suggested))
      && inState(index) && (!wanted || textOf(index).includes(wanted)));
    // Sorting is stable: within equal ones the most suspicious stay first.
    view.sort(orders[byId("sort").value]);
    placeOf = new Map(view.map((index, place) => [index, place]));
    byId("clear-filters").hidden = given === "" && suggested === "" && !wanted && byId("filter-state").value === "all";
    byId("nothing").hidden = view.length > 0;
    byId("shown-text").textContent = view.length < total ? `${inEnglish(view.length)} shown` : "";
    byId("suspects").setAttribute("aria-rowcount", String(view.length + 1));
    cursor = 0;
    pane.scrollTop = 0;
    layOut();
    announce(`${inEnglish(view.length)} suspect labels shown.`);
  };

  const fillFilter = (id, column) => {
    const counts = new Map();
    for (const code of suspects[column]) counts.set(code, (counts.get(code) ?? 0) + 1);
    const options = [...counts].sort((a, b) => a[0] - b[0]).map(([code, n]) => new Option(`${classes[code]} (${n})`, code));
    byId(id).replaceChildren(new Option("any", ""), ...options);
  };
  // Where the window is narrow, search and filters stay folded until they are asked for.
  const showTools = (shown) => {
    byId("tools").classList.toggle("open", shown);
    byId("tools-open").setAttribute("aria-expanded", String(shown));
  };
  const setFilters = (given, suggested) => {
    if (given !== "" || suggested !== "") showTools(true);
    byId("filter-given").value = given;
    byId("filter-suggested").value = suggested;
    byId("filter-state").value = "all";
    byId("search").value = "";
    select();
  };

  // ---- decisions
  const record = (steps) => {
    for (const [index, decision] of steps) {
      if (decision) decisions.set(index, decision);
      else decisions.delete(index);
      refresh(index);
    }
    save();
    refreshProgress();
  };
  const decide = (steps) => {
    past.push(steps.map(([index]) => [index, decisions.get(index)]));
    record(steps);
  };
  const decideOne = (index, kind, code) => {
    decide([[index, kind === "skip" ? ["skip"] : [kind, code]]]);
    announce(`${titleOf(index)}: ${outcome(index)}. ${byId("progress-text").textContent}.`);
    moveTo(placeOf.get(index) + 1);
  };
  // Whatever way a class was arrived at, its kind says what it means.
  const kindOf = (index, code) => {
    if (code === suspects.given[index]) return "keep";
    return code === suspects.suggested[index] ? "accept" : "change";
  };
  const settle = (index, code) => decideOne(index, kindOf(index, code), code);

  const undo = () => {
    const steps = past.pop();
    if (!steps) return;
    record(steps);
    const what = steps.length === 1 ? titleOf(steps[0][0]) : `${inEnglish(steps.length)} labels`;
    announce(`${what}: undone. ${byId("progress-text").textContent}.`);
    const place = placeOf.get(steps[0][0]);
    if (place !== undefined) moveTo(place);
  };

  const act = (index, name) => {
    if (name === "accept") {
      if (suspects.suggested[index] !== suspects.given[index]) settle(index, suspects.suggested[index]);
    } else if (name === "keep") settle(index, suspects.given[index]);
    else if (name === "skip") decideOne(index, "skip");
    else if (name === "change") openChooser(index);
    else if (name === "alike") {
      showsAlike = !showsAlike;
      refresh(index);
    } else if (name === "fields") showAll(index);
  };
  const showAll = (index) => {
    const row = rowOf(index);
    for (const pair of row.querySelectorAll(".fields > div")) pair.hidden = false;
    for (const value of row.querySelectorAll(".fields dd")) value.classList.add("whole");
    row.querySelector("[data-action=fields]")?.remove();
    row.focus({ preventScroll: true });
  };

  // ---- another class
  const chooser = byId("choose");
  const openChooser = (index) => {
    byId("choose-about").textContent = `${titleOf(index)}, labelled ${classes[suspects.given[index]]}`;
    byId("choose-class").replaceChildren(...classes.map((name, code) => new Option(name, code))
      .filter((_, code) => code !== suspects.given[index]));
    byId("choose-class").value = String(decisions.get(index)?.[1] ?? suspects.suggested[index]);
    chooser.dataset.index = index;
    chooser.returnValue = "cancel";
    chooser.showModal();
    byId("choose-class").focus();
  };
  const settleChoice = () => {
    const index = Number(chooser.dataset.index);
    if (byId("choose-class").value !== "") settle(index, Number(byId("choose-class").value));
    else moveTo(cursor);
  };
  // From the keyboard at once: the next key may arrive before the dialog tells that it has closed.
  const choose = () => {
    chooser.close("settled");
    settleChoice();
  };
  chooser.addEventListener("close", () => {
    if (chooser.returnValue === "choose") settleChoice();
    else if (chooser.returnValue !== "settled") moveTo(cursor);
  });
  byId("choose-class").addEventListener("dblclick", choose);
  byId("choose-class").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    choose();
  });

  // ---- many at once: a mix-up above a confidence
  const bulk = byId("bulk");
  const pairs = new Map();
  suspects.given.forEach((given, index) => {
    const suggested = suspects.suggested[index];
    if (given === suggested) return;
    const key = `${given} ${suggested}`;
    pairs.set(key, [...(pairs.get(key) ?? []), index]);
  });
  const ofBulk = () => (pairs.get(byId("bulk-pair").value) ?? []).filter((index) =>
    !decisions.has(index) && suspects.pSuggested[index] >= Number(byId("bulk-least").value) / 100);
  const tellBulk = () => {
    const number = ofBulk().length;
    byId("bulk-least-text").textContent = `${byId("bulk-least").value}%`;
    byId("bulk-take").textContent = `Accept ${inEnglish(number)}`;
    byId("bulk-take").disabled = number === 0;
  };
  const openBulk = () => {
    const open = [...pairs].map(([key, all]) => [key, all.filter((index) => !decisions.has(index)).length]);
    byId("bulk-pair").replaceChildren(...open.sort((a, b) => b[1] - a[1]).map(([key, number]) => {
      const [given, suggested] = key.split(" ").map((code) => classes[code]);
      return new Option(`${given} → ${suggested} (${inEnglish(number)} open)`, key);
    }));
    const here = `${suspects.given[view[cursor]]} ${suspects.suggested[view[cursor]]}`;
    if (pairs.has(here)) byId("bulk-pair").value = here;
    tellBulk();
    bulk.returnValue = "cancel";
    bulk.showModal();
  };
  byId("bulk-pair").addEventListener("change", tellBulk);
  byId("bulk-least").addEventListener("input", tellBulk);
  bulk.addEventListener("close", () => {
    const chosen = bulk.returnValue === "take" ? ofBulk() : [];
    if (chosen.length) {
      decide(chosen.map((index) => [index, ["accept", suspects.suggested[index]]]));
      announce(`${inEnglish(chosen.length)} suggestions accepted; undo takes all of them back. ${byId("progress-text").textContent}.`);
    }
    const open = view.findIndex((index) => !decisions.has(index));
    moveTo(open >= 0 ? open : cursor);
  });
  byId("bulk-open").addEventListener("click", openBulk);

  // ---- keys, buttons and controls
  rows.addEventListener("click", (event) => {
    const row = event.target.closest(".suspect");
    if (!row) return;
    const button = event.target.closest("button");
    const index = Number(row.dataset.index);
    moveTo(placeOf.get(index), !button);
    if (button) act(index, button.dataset.action);
  });
  rows.addEventListener("focusin", (event) => {
    const row = event.target.closest(".suspect");
    const place = placeOf.get(Number(row?.dataset.index));
    if (place !== undefined && place !== cursor) moveTo(place, false);
  });

  const letters = { a: "accept", k: "keep", s: "skip", c: "change", r: "alike", e: "fields" };
  const moves = () => ({
    ArrowDown: columns, ArrowUp: -columns, ...(columns > 1 ? { ArrowRight: 1, ArrowLeft: -1 } : {}),
    PageDown: columns * 6, PageUp: -columns * 6, Home: -total, End: total,
  });
  document.addEventListener("keydown", (event) => {
    // Letters are ours only in the review, or where nothing has the focus; never while a control is typed into.
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("select, dialog, input")) return;
    if (target !== document.body && !byId("review").contains(target)) return;
    const key = event.key.toLowerCase();
    list.rowAt(cursor);  // it may have been scrolled away and out of the document
    if (key === "u" || key === "z") undo();
    else if (key === "b") openBulk();
    else if (key === "g" && byId("as-grid")) byId("as-grid").click();
    else if (key === "/") {
      showTools(true);
      byId("search").focus();
    }
    else if (key in letters && view.length) act(view[cursor], letters[key]);
    else if (event.key in moves() && (event.key.startsWith("Arrow") || target.closest(".suspect"))) {
      moveTo(cursor + moves()[event.key]);
    } else return;
    event.preventDefault();
  });
  byId("search").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    if (event.key === "Escape") {
      byId("search").value = "";
      select();
    }
    event.preventDefault();
    moveTo(cursor);
  });

  byId("tools-open").addEventListener("click", () => showTools(!byId("tools").classList.contains("open")));
  byId("undo").addEventListener("click", undo);
  byId("clear-filters").addEventListener("click", () => setFilters("", ""));
  byId("search").addEventListener("input", select);
  for (const id of ["filter-given", "filter-suggested", "filter-state", "sort"]) byId(id).addEventListener("change", select);

  byId("as-grid")?.addEventListener("click", () => {
    rows.classList.toggle("grid");
    byId("suspects").classList.toggle("has-grid", isGrid());
    byId("as-grid").setAttribute("aria-pressed", String(isGrid()));
    byId("zoom-line").hidden = !isGrid();
    layOut();
    moveTo(cursor);
  });
  byId("zoom")?.addEventListener("input", layOut);
  let width = rows.clientWidth;
  new ResizeObserver(() => {
    if (isGrid() && rows.clientWidth !== width) layOut();
    width = rows.clientWidth;
  }).observe(pane);

  byId("download").addEventListener("click", () => {
    const lines = [...decisions].filter(([, [kind]]) => kind !== "skip").sort((a, b) => a[0] - b[0])
      .map(([index, [kind, code]]) => [suspects.row[index], nameOf(index), classes[suspects.given[index]], classes[code], kind]);
    downloadText(data.file, csvText([["row", "name", "given", "corrected", "decision"], ...lines]));
    announce(`${inEnglish(lines.length)} decided rows downloaded as ${data.file}.`);
  });
  for (const button of document.querySelectorAll("button[data-given]")) {
    button.addEventListener("click", () => {
      setFilters(String(classes.indexOf(button.dataset.given)), String(classes.indexOf(button.dataset.suggested)));
      byId("review").scrollIntoView();
      moveTo(cursor);
    });
  }

  fillFilter("filter-given", "given");
  fillFilter("filter-suggested", "suggested");
  select();
  refreshProgress();
  // Continue where the last visit stopped.
  const open = view.findIndex((index) => !decisions.has(index));
  if (open > 0) {
    moveTo(open, false);
    const row = list.rowAt(open);
    pane.scrollTop += row.getBoundingClientRect().top - pane.getBoundingClientRect().top - 60;
  }
  announce("");
})();
