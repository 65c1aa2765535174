"use strict";
// CSV as RFC 4180 has it: a field is quoted where it would be misread otherwise. What a spreadsheet would compute
// gets an apostrophe in front, which `trevision apply` and `audit` take away again (spreadsheets.py).
const isFormula = (text) => /^[=+\-@\t\r]/.test(text) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);

const csvText = (lines) => {
  const field = (value) => {
    const given = String(value);
    const text = isFormula(given.replace(/^'+/, "")) ? `'${given}` : given;
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
