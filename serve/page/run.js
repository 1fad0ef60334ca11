// A run's report, its transcripts with filters, and the answers before and after.

import { $, make, number, options } from "/page/dom.js";
import { get, text } from "/page/net.js";

const FILTERS = ["bias_type", "identity", "round", "label", "least", "most"];
let offset = 0;

export function start(about) {
  options($("run-name"), about.runs);
  if (!about.runs.length) {
    $("run-status").textContent = "This server was given no run to show.";
    return;
  }
  $("run-name").addEventListener("change", () => open(selected()));
  tabs();
  $("filter-form").addEventListener("submit", (event) => event.preventDefault());
  $("filter-form").addEventListener("change", () => transcripts(0));
  $("earlier").addEventListener("click", () => transcripts(offset - 50));
  $("later").addEventListener("click", () => transcripts(offset + 50));
}

const path = (rest) => `/v1/runs/${encodeURIComponent($("run-name").value)}/${rest}`;
const selected = () => document.querySelector('[role=tab][aria-selected="true"]');

function tabs() {
  const all = [...document.querySelectorAll("[role=tab]")];
  for (const tab of all) {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = all[(all.indexOf(tab) + step + all.length) % all.length];
      next.focus();
      open(next);
    });
  }
}

function open(tab) {
  for (const other of document.querySelectorAll("[role=tab]")) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", chosen);
    other.tabIndex = chosen ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  return show();
}

export function show() {
  if (!$("run-name").value) return;
  return { "tab-report": report, "tab-transcripts": () => transcripts(0), "tab-answers": answers }[selected().id]();
}

async function told(work) {
  $("run-status").classList.remove("wrong");
  $("run-status").textContent = "Reading…";
  try {
    $("run-status").textContent = (await work()) ?? "";
  } catch (error) {
    $("run-status").textContent = error.message;
    $("run-status").classList.add("wrong");
    if (error.status === 401) document.dispatchEvent(new Event("key-needed"));
  }
}

function report() {
  return told(async () => {
    // Without scripts and without an origin: what models said is in it.
    const frame = make("iframe", { title: "Report of the run", srcdoc: await text(path("report.html")) });
    frame.setAttribute("sandbox", "");
    $("run-report").replaceChildren(frame);
  });
}

function transcripts(from) {
  return told(async () => {
    const query = new URLSearchParams({ offset: Math.max(0, from) });
    for (const name of FILTERS) if ($(`f-${name}`).value) query.set(name, $(`f-${name}`).value);
    const found = await get(path(`statements?${query}`));
    offset = found.offset;
    for (const name of ["bias_type", "identity", "round"]) options($(`f-${name}`), found.facets[name], $(`f-${name}`).value, true);
    $("statements").replaceChildren(...found.data.map((row) => statement(row, found.score, true)));
    $("earlier").disabled = offset === 0;
    $("later").disabled = offset + found.page >= found.total;
    const last = Math.min(offset + found.page, found.total);
    return found.total ? `${offset + 1} to ${last} of ${found.total} statements` : "No statement fits.";
  });
}

function statement(row, score, whole) {
  const marks = [`${score === "score" ? "score" : "expected score"} ${number(row[score])}`, `place ${row.rank ?? "none"}`, row.label ? `${row.label} bias` : "no label"];
  const head = `${row.identity}, round ${row.round}, ${row.bias_type}`;
  const card = make("article", { className: `card statement ${row.label ?? ""}` }, make("h3", { textContent: head }), make("p", { className: "quiet", textContent: row.context }), make("p", { textContent: row.text || "(said nothing)" }));
  const line = make("div", { className: "marks" }, ...marks.map((mark) => make("span", { textContent: mark })));
  if (whole) {
    const button = make("button", { type: "button", textContent: "Whole debate" });
    button.addEventListener("click", () => debate(row.debate_id, score));
    line.append(button);
  }
  card.append(line);
  return card;
}

function debate(id, score) {
  return told(async () => {
    const found = await get(path(`debates/${encodeURIComponent(id)}`));
    $("whole-text").replaceChildren(...found.data.map((row) => statement(row, score, false)));
    $("whole-debate").showModal();
  });
}

function answers() {
  return told(async () => {
    const found = await get(path("answers"));
    $("run-answers").replaceChildren(...found.data.map(entry));
    return `${found.data.length} of ${found.total} held-out prompts`;
  });
}

function entry({ prompt, bias_type: type, models }) {
  const cards = Object.entries(models).map(([name, { answer, reward }]) =>
    make("article", { className: "card" }, make("h3", { textContent: name }), make("p", { textContent: answer }), make("p", { className: "marks", textContent: `reward ${number(reward)}` })),
  );
  return make("section", { className: "round" }, make("h3", { textContent: prompt }), make("p", { className: "quiet", textContent: type }), make("div", { className: "pair" }, ...cards));
}
