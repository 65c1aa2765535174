"use strict";
// A suspect as elements. What comes from the data goes in as text, never as markup.
const make = (tag, className, ...children) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
};

const rowBuilder = (data) => {
  const { classes, suspects, pictures, fields, alike } = data;
  // Fields of a row, and letters of a text, that are shown before a person asks for the rest.
  const FIRST_FIELDS = 4;
  const LONG = 420;
  const titleOf = (index) => suspects.name[index] ?? `Row ${suspects.row[index]}`;
  const labelsOf = (index) => ({ given: classes[suspects.given[index]], suggested: classes[suspects.suggested[index]] });

  const cell = (className, label, ...children) => {
    const element = make("div", className, ...children);
    element.setAttribute("role", "cell");
    element.dataset.label = label;
    return element;
  };
  const action = (kind, hint, key, ...children) => {
    const button = make("button", "action", ...children);
    if (key) button.append(make("kbd", "", key));
    button.type = "button";
    button.tabIndex = -1;
    button.dataset.action = kind;
    button.title = hint;
    return button;
  };
  const picture = (place) => {
    const image = make("img", pictures.pixels <= 32 ? "pixels" : "");
    image.alt = "";
    image.decoding = "async";
    image.src = `data:${pictures.mime};base64,${pictures.encoded[place]}`;
    return image;
  };

  // Words as the report counted them: runs of letters and digits.
  const marked = (text, index) => {
    const [speaking, against] = fields.words[index] ?? [[], []];
    const { given, suggested } = labelsOf(index);
    const kinds = new Map([
      ...speaking.map((word) => [word, ["for", suggested, given]]),
      ...against.map((word) => [word, ["against", given, suggested]]),
    ]);
    if (!kinds.size) return [text];
    const parts = [];
    let from = 0;
    for (const found of text.matchAll(/[\p{L}\p{N}]+/gu)) {
      const kind = kinds.get(found[0].toLowerCase());
      if (!kind) continue;
      const mark = make("mark", kind[0], found[0]);
      mark.title = `Occurs in clearly more of the rows labelled ${kind[1]} than of those labelled ${kind[2]}, suspects left out`;
      parts.push(text.slice(from, found.index), mark);
      from = found.index + found[0].length;
    }
    return [...parts, text.slice(from)];
  };

  const usualOf = (column, index) => {
    const { given, suggested } = labelsOf(index);
    const [expected, held] = [fields.usual[column][suggested], fields.usual[column][given]];
    // Of a class whose rows are all suspects, nothing is usual.
    const known = [[suggested, expected], [given, held]].filter(([, value]) => value);
    if (!known.length) return [];
    const told = make("span", "usual", known.map(([name, value]) => `${name}: ${value}`).join(" · "));
    told.title = "Usual in rows labelled so: the median, or the most frequent value with its share";
    return [" ", told];
  };

  const fieldList = (index) => {
    if (!fields || index >= fields.rows.length) return [];
    const list = make("dl", "fields");
    let [shown, more] = [0, 0];
    for (const column of fields.order[index]) {
      const text = fields.rows[index][column];
      const isText = column < fields.texts;
      if (isText && !text) continue;
      const value = make("dd", isText ? "text" : "", ...(isText ? marked(text, index) : [text || "–", ...usualOf(column, index)]));
      if (isText && text.length > LONG) more += 1;
      else value.classList.add("whole");
      const alone = fields.texts === 1 && isText;
      const pair = make("div", "", make("dt", alone ? "unseen" : "", fields.columns[column]), value);
      shown += 1;
      if (shown > FIRST_FIELDS) {
        pair.hidden = true;
        more += 1;
      }
      list.append(pair);
    }
    return more ? [list, action("fields", "Show all of this row (E)", "", "Show all")] : [list];
  };

  // Rows like this one, with the label that they have.
  const alikeList = (index) => {
    const list = make("ul", "alike");
    for (const place of alike.of[index]) {
      const name = alike.name[place] ?? `row ${alike.row[place]}`;
      const item = make("li", "");
      if (pictures && pictures.suspects + place < pictures.encoded.length) item.append(picture(pictures.suspects + place));
      item.append(make("b", "", classes[alike.given[place]]), " ", make("span", "muted", alike.text ? `${alike.text[place]} (${name})` : name));
      list.append(item);
    }
    const panel = cell("alikes", "", make("p", "small muted", list.children.length
      ? `Rows ${alike.by}, and the labels they have:` : "No other row is like this one."), list);
    return panel;
  };
  const hasAlike = (index) => Boolean(alike) && index < alike.of.length;

  const build = (index) => {
    const { given, suggested } = labelsOf(index);
    const share = suspects.pSuggested[index];
    const offers = given !== suggested;
    const meter = make("meter", "");
    meter.value = share;
    meter.setAttribute("aria-hidden", "true");
    const about = make("div", "about", make("span", "name", titleOf(index)), ...fieldList(index));
    const hasPicture = pictures && index < pictures.suspects;
    const others = [action("change", "Choose another class (C)", "C", "Other"), action("skip", "Decide nothing (S)", "S", "Skip")];
    if (hasAlike(index)) others.push(action("alike", "Rows like this one (R)", "R", "Similar"));
    const row = make("div", "suspect",
      cell("what", "", ...(hasPicture ? [picture(index)] : []), about),
      cell("given", "Labelled", action("keep", "Keep this label (K)", "K", make("span", "label", given))),
      cell("suggested", "Suggested", ...(offers ? [action("accept", "Take this label (A)", "A", make("span", "label", suggested))] : ["–"])),
      cell("probability", "How sure", make("span", "value", share > 0.995 ? ">99%" : `${(100 * share).toFixed(0)}%`), meter),
      cell("decision", "", make("div", "actions", ...others), make("p", "outcome")));
    row.setAttribute("role", "row");
    row.dataset.index = index;
    row.tabIndex = -1;
    return row;
  };
  return { build, titleOf, alikeList, hasAlike };
};
