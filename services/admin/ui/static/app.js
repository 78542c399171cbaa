/* The keyboard, polls that rest, and what a browser does better than a page: copying, times, the theme.
   Every page works without this file. */
"use strict";
(() => {
  const $ = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  let firstKey = "";
  let lostSince = null;

  /* Polls: none in a hidden tab or while rows are selected; what did not change is not sent again. */
  const isPoll = (ctx) => ctx.sourceEvent?.type === "every";
  const hasSelection = () => $("[data-row] input[type=checkbox]:checked") !== null;

  document.addEventListener("htmx:config:request", (event) => {
    const ctx = event.detail.ctx;
    if (!isPoll(ctx)) return;
    if (document.hidden || hasSelection() || $("dialog[open]")) { event.preventDefault(); return; }
    ctx.request.headers["If-None-Match"] = `"${ctx.sourceElement.dataset.tag ?? ""}"`;
  });

  document.addEventListener("htmx:before:response", (event) => {
    const {status, headers} = event.detail.ctx.response;
    if (status === 401) { show("You are logged out. ", "Log in again", `/ui/login?next=${encodeURIComponent(here())}`); return; }
    if (status >= 400) { lost(`The page cannot be refreshed (${status}).`); return; }
    hideLost();
    const asOf = $("#as-of");
    const date = headers.get("date");
    if (status === 304 && asOf && date) asOf.textContent = new Date(date).toISOString().slice(11, 19);
    refreshTimes();
  });
  document.addEventListener("htmx:error", () => lost("The admin service does not answer."));

  const here = () => location.pathname + location.search;
  const lost = (text) => {
    lostSince ??= new Date();
    show(`${text.replace(/\.$/, "")}, since ${lostSince.toISOString().slice(11, 19)} UTC. The figures below are older.`);
  };
  const show = (text, link, url) => {
    const box = $("#lost");
    if (box.dataset.text === text) return;
    box.dataset.text = text;
    const words = document.createElement("p");
    words.textContent = text;
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = url;
      anchor.textContent = link;
      words.append(anchor);
    }
    box.replaceChildren(words);
    box.hidden = false;
  };
  const hideLost = () => { lostSince = null; const box = $("#lost"); box.hidden = true; box.dataset.text = ""; };

  /* A poll neither closes what was opened nor changes what was chosen. */
  const lasting = new Set(["open", "checked", "selected"]);
  htmx.registerExtension("onramp", {htmx_before_morph_attr: (element, detail) => !lasting.has(detail.attrName)});

  /* Relative times, as services/admin/ui/formats.py writes them. */
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const duration = (seconds) => {
    const [length, unit] = steps.find(([length]) => seconds >= 2 * length || length === 1);
    return `${Math.max(Math.round(seconds / length), 0).toLocaleString("en-US")} ${unit}`;
  };
  const refreshTimes = () => {
    for (const each of all("time[data-fresh]")) {
      const seconds = (Date.now() - Date.parse(each.dateTime.replace(" ", "T"))) / 1000;
      if (Number.isNaN(seconds)) continue;
      each.textContent = seconds < 0 ? `in ${duration(-seconds)}` : seconds < 1 ? "just now" : `${duration(seconds)} ago`;
    }
  };

  /* Keyboard */
  const isTyping = (element) => element.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]") !== null;
  const rowOf = (element) => element?.closest("[data-row]") ?? null;

  const move = (by) => {
    const rows = all("[data-row]");
    if (!rows.length) return;
    const at = rows.indexOf(rowOf(document.activeElement));
    const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
    (next.querySelector("a[href]") ?? next.querySelector("button, input") ?? next).focus();
    next.scrollIntoView({block: "nearest"});
  };

  const keys = {
    "/": () => { const search = $("#search"); search?.focus(); search?.select(); },
    "j": () => move(1),
    "k": () => move(-1),
    "x": () => rowOf(document.activeElement)?.querySelector("input[type=checkbox]")?.click(),
    "?": () => { const dialog = $("#keys"); if (!dialog.open) dialog.showModal(); },
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape" && event.target.id === "search") event.target.blur();
      return;
    }
    if ($("dialog[open]")) return;
    if (firstKey === "g") {
      firstKey = "";
      const entry = all("[data-go]").find((each) => each.dataset.go === event.key);
      if (entry) { event.preventDefault(); location.assign(entry.href); }
      return;
    }
    if (event.key === "g") { firstKey = "g"; setTimeout(() => { firstKey = ""; }, 1500); return; }
    const action = keys[event.key];
    if (action) { event.preventDefault(); action(); }
  });

  /* Selected rows: their number, and the buttons that need some. */
  const countSelected = () => {
    const count = all("[data-row] input[type=checkbox]:checked").length;
    for (const each of all("[data-selected]")) each.textContent = count.toLocaleString("en-US");
    for (const each of all("[data-needs-selection]")) each.disabled = count === 0;
  };
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.matches("[data-select-all]")) for (const each of all("[data-row] input[type=checkbox]")) each.checked = box.checked;
    if (box.type === "checkbox") countSelected();
  });

  /* A second click on a button of a form that is on its way does nothing. */
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.sent) { event.preventDefault(); return; }
    if (form.method === "post") form.dataset.sent = "1";
  });
  addEventListener("pageshow", () => { for (const form of all("form")) delete form.dataset.sent; countSelected(); refreshTimes(); });

  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent);
      copy.textContent = "Copied";
    }
    if (event.target.closest(".menu") && location.hash === "#nav") { event.preventDefault(); location.hash = ""; }
    if (event.target.closest("#theme")) {
      const root = document.documentElement;
      const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = isDark ? "light" : "dark";
      document.cookie = `theme=${root.dataset.theme}; path=/ui; max-age=31536000; samesite=strict`;
    }
  });

  /* What needs this file is hidden without it. */
  const reveal = () => {
    for (const each of all("#theme")) each.hidden = false;
    if (navigator.clipboard) for (const each of all("[data-copy]")) each.hidden = false;
    countSelected();
  };
  reveal();
  document.addEventListener("htmx:after:swap", () => { reveal(); refreshTimes(); });
  setInterval(() => { if (!document.hidden) refreshTimes(); }, 10000);
})();
