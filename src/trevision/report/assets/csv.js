"use strict";
// CSV as RFC 4180 has it: a field is quoted where it would be misread otherwise.
const csvText = (lines) => {
  const field = (value) => {
    const text = String(value);
    return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return lines.map((line) => `${line.map(field).join(",")}\r\n`).join("");
};

const downloadText = (name, text) => {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = Object.assign(document.createElement("a"), { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
};
