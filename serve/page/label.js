// A dialogue about a label as it unfolds: each side's arguments, both distributions, the metrics.

import { $, busy, make, number, options } from "/page/dom.js";
import { stream } from "/page/net.js";

const OWN = "what it holds itself";
let scales = {};

export function start(about) {
  scales = about.scales;
  options($("label-scale"), Object.keys(scales), "toward");
  options($("label-model"), about.models, about.default);
  $("label-rounds").max = about.debate_rounds;
  $("label-scale").addEventListener("change", labels);
  labels();
  $("label-form").addEventListener("submit", (event) => {
    event.preventDefault();
    busy($("label-button"), $("label-stop"), $("label-status"), hold);
  });
  $("label-button").disabled = false;
}

function labels() {
  options($("label-given"), [OWN, ...scales[$("label-scale").value]], OWN);
}

async function hold(signal) {
  const given = $("label-given").value;
  const body = {
    text: $("label-text").value.trim(),
    target: $("label-target").value.trim() || "the subject",
    scale: $("label-scale").value,
    given: given === OWN ? null : given,
    rounds: Number($("label-rounds").value),
    model: $("label-model").value,
  };
  const rounds = new Map();
  let names = [];
  $("dispute").replaceChildren();
  $("label-status").textContent = "A reads the text…";
  for await (const { event, data } of stream("/v1/evince", body, signal)) {
    if (event === "dialogue") {
      names = data.labels;
      $("label-status").textContent = `A defends “${data.given}”, B opposes it…`;
    } else if (event === "turn") said(round(rounds, data.round), data, names);
    else if (event === "round") measured(rounds.get(data.round), data);
    else if (event === "decision") decided(data, names);
    else if (event === "error") throw new Error(data.message);
    else if (event === "done") $("label-status").textContent += ` ${data.tokens} tokens.`;
  }
}

function round(rounds, place) {
  if (!rounds.has(place)) {
    const sides = Object.fromEntries(["A", "B"].map((side) => [side, make("article", { className: "card" }, make("h3", { textContent: side }), make("p", { className: "writing" }))]));
    const figures = make("p", { className: "quiet" });
    const title = make("h3", { textContent: `Round ${place}` });
    $("dispute").append(make("section", { className: "round", "aria-label": `Round ${place}` }, title, make("div", { className: "pair" }, sides.A, sides.B), figures));
    rounds.set(place, { sides, figures });
  }
  return rounds.get(place);
}

function said({ sides }, { side, round: place, distribution, arguments: given, answers, concedes }, names) {
  const lines = given.map((one) => {
    const quote = one.quote ? make("q", { textContent: one.quote }) : "";
    const missing = one.quote && one.quote_at === null ? " (not in the text)" : "";
    return make("li", {}, `${one.argument_id}, for “${one.label}”: ${one.claim} ${one.reason} `, quote, missing);
  });
  const replies = Object.entries(answers).map(([id, reply]) => make("li", { textContent: `to ${id}: ${reply}` }));
  const parts = [bars(names, distribution), make("ul", {}, ...replies, ...lines)];
  if (concedes.length) parts.push(make("p", { className: "quiet", textContent: `accepts ${concedes.join(", ")}` }));
  sides[side].querySelector(".writing")?.remove();
  sides[side].append(...parts);
  $("label-status").textContent = side === "A" ? `Round ${place}: B answers…` : `Round ${place}: the judge rates the reasons…`;
}

function bars(names, distribution) {
  const rows = names.map((name, place) =>
    make("div", { className: "bar" }, make("span", { textContent: name }), make("meter", { min: 0, max: 1, value: distribution[place], title: name }), make("span", { textContent: `${Math.round(100 * distribution[place])} %` })),
  );
  return make("div", { className: "bars" }, ...rows);
}

function measured({ figures }, data) {
  const crit = ["A", "B"].map((side) => `${side} ${number(data.crit[side])}`).join(", ");
  figures.textContent = `level ${number(data.level)} (${data.phase}) · WD ${number(data.wd)} · KL ${number(data.kl)} · JSD ${number(data.jsd)} · normalised CE ${number(data.nce)} · quality of reasons: ${crit}`;
}

function decided(data, names) {
  const review = data.review.length ? ` A person should look: ${data.review.join(", ")}.` : "";
  $("dispute").append(make("section", { className: "round" }, make("h3", { textContent: `Ends (${data.status}): ${data.label}` }), bars(names, data.distributions[0])));
  $("label-status").textContent = `${data.status}.${review}`;
}
