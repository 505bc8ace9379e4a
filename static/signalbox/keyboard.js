/* What the theme opens by a click alone becomes a button for the keyboard: a stop with a name and a state, pressed by
   Enter or space. What a button opens is entered, left by Escape, and closed when the keyboard goes on elsewhere. */

"use strict";

(() => {
  const STOPS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";

  const byId = (id) => () => document.getElementById(id);
  const KINDS = [
    {
      clicked: "#nav-sidebar [x-on\\:click^='sidebarMobileOpen']",
      name: () => "Close the navigation",
    },
    {
      clicked: "[x-on\\:click^='sidebarMobileOpen']",
      name: () => "Navigation",
      opens: byId("nav-sidebar"),
    },
    {
      clicked: "[x-on\\:click^='sidebarDesktopOpen']",
      name: () => "Navigation",
      shows: byId("nav-sidebar"),
    },
    {
      clicked: "[x-on\\:click='filterOpen = true']",
      opens: byId("changelist-filter"),
      close: () => document.getElementById("changelist-filter-close").click(),
    },
    {
      clicked: "[x-on\\:click^='openUserLinks']",
      name: (button) => `Account of ${button.querySelector(".flex-col > *").textContent.trim()}`,
      opens: (button) => button.parentElement.querySelector("nav"),
    },
    { clicked: "[x-on\\:click^='switchTheme']" },
    { clicked: ".delete-template", name: () => "Remove this row" },
  ];
  const CLICKED = KINDS.map((kind) => kind.clicked).join(", ");

  let opened = null; // the button and what it opened, while the keyboard is in there

  const isSeen = (element) => Boolean(element && element.getClientRects().length);
  const kindOf = (element) => KINDS.find((kind) => element.matches(kind.clicked));
  const settled = (act) => requestAnimationFrame(() => requestAnimationFrame(act)); // when Alpine has shown or hidden

  function adopt(button) {
    const kind = kindOf(button);
    button.setAttribute("role", "button");
    button.setAttribute("tabindex", "0");
    if (kind.name) button.setAttribute("aria-label", kind.name(button));
    tellState(button);
  }

  function tellState(button) {
    const kind = kindOf(button);
    const find = kind.opens || kind.shows;
    if (find) button.setAttribute("aria-expanded", String(isSeen(find(button))));
  }

  function tellStates() {
    const tell = () => document.querySelectorAll(`:is(${CLICKED})[aria-expanded]`).forEach(tellState);
    settled(tell);
    setTimeout(tell, 300); // what fades away is seen for a while
  }

  function press(button) {
    const kind = kindOf(button);
    const rows = button.closest(".formset"); // before the row is gone, and the button with it
    button.click();
    settled(() => {
      if (button.matches(".delete-template")) rows.querySelector(".add-row").focus();
      const panel = kind.opens && kind.opens(button);
      if (!isSeen(panel)) return;
      opened = { button, panel, close: kind.close || (() => button.click()) };
      const first = [...panel.querySelectorAll(STOPS)].find(isSeen);
      if (first) first.focus();
    });
  }

  function leave() {
    const { panel, close } = opened;
    opened = null;
    if (isSeen(panel)) close();
  }

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.key === "Escape" && opened) {
      const { button } = opened;
      leave();
      settled(() => button.focus());
    } else if ((event.key === "Enter" || event.key === " ") && target.matches(CLICKED)) {
      event.preventDefault();
      press(target);
    } else if (event.key === "Enter" && target.matches(".add-row")) {
      const rows = target.closest(".formset");
      settled(() => {
        const row = [...rows.querySelectorAll(":scope > .form-group:not(.empty-form)")].pop();
        const first = row && [...row.querySelectorAll(STOPS)].find(isSeen);
        if (first) first.focus();
      });
    }
  });

  document.addEventListener("focusin", (event) => {
    if (opened && event.target !== opened.button && !opened.panel.contains(event.target)) leave();
  });

  document.addEventListener("click", tellStates);

  window.addEventListener("load", () => settled(() => document.querySelectorAll(CLICKED).forEach(adopt)));
})();
