"use strict";
// A button beside each command to paste.
for (const button of document.querySelectorAll("button[data-copies]")) {
  button.addEventListener("click", async () => {
    const code = document.getElementById(button.dataset.copies);
    const words = button.textContent;
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      // Where the browser forbids it, the command is selected, to be copied by hand.
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = words; }, 2000);
  });
}
