"use strict";
// Light, dark, or as the system says; the choice is remembered where the browser allows it.
(() => {
  const choices = ["system", "light", "dark"];
  const button = document.getElementById("theme");
  const remembered = () => {
    try { return localStorage.getItem("trevision-theme"); } catch { return null; }
  };
  const show = (choice) => {
    document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
  };
  button.addEventListener("click", () => {
    const next = choices[(choices.indexOf(document.documentElement.dataset.theme) + 1) % choices.length];
    show(next);
    try { localStorage.setItem("trevision-theme", next); } catch { /* the choice holds for this visit */ }
  });
  document.documentElement.classList.add("scripted");
  show(choices.includes(remembered()) ? remembered() : "system");
})();
