// A debate as it unfolds: statements when they are made, scores and ranks when they are given.

import { $, busy, make, number, options } from "/page/dom.js";
import { stream } from "/page/net.js";

export function start(about) {
  options($("bias-type"), Object.keys(about.bias_types), "age");
  options($("debate-model"), about.models, about.default);
  $("rounds").max = about.debate_rounds;
  $("debate-form").addEventListener("submit", (event) => {
    event.preventDefault();
    busy($("debate-button"), $("debate-stop"), $("debate-status"), hold);
  });
  $("debate-button").disabled = false;
}

async function hold(signal) {
  const body = {
    topic: $("topic").value.trim(),
    bias_type: $("bias-type").value,
    debaters: Number($("debaters").value),
    rounds: Number($("rounds").value),
    model: $("debate-model").value,
  };
  const rounds = new Map();
  $("transcript").replaceChildren();
  $("debate-status").textContent = "The debaters are thinking…";
  let identities = [];
  for await (const { event, data } of stream("/v1/debate", body, signal)) {
    if (event === "debate") identities = data.identities;
    else if (event === "statement") said(round(rounds, data.round, identities), data);
    else if (event === "scores") judged(rounds.get(data.round), data);
    else if (event === "error") throw new Error(data.message);
    else if (event === "done") $("debate-status").textContent = `Finished: ${data.tokens} tokens.`;
  }
}

function round(rounds, number, identities) {
  if (!rounds.has(number)) {
    const seats = identities.map((identity) =>
      make("article", { className: "card" }, make("h3", { textContent: identity }), make("p", { className: "writing" }), make("p", { className: "marks" })),
    );
    const title = make("h3", { textContent: `Round ${number}` });
    $("transcript").append(make("section", { className: "round", "aria-label": `Round ${number}` }, title, make("div", { className: "pair" }, ...seats)));
    rounds.set(number, seats);
    $("debate-status").textContent = `Round ${number}: the debaters speak…`;
  }
  return rounds.get(number);
}

function said(seats, { role, text }) {
  const paragraph = seats[role].querySelector("p");
  paragraph.classList.remove("writing");
  paragraph.textContent = text || "(said nothing)";
  if (!seats.some((seat) => seat.querySelector(".writing"))) $("debate-status").textContent = "The referee judges…";
}

function judged(seats, { scores }) {
  for (const { role, score, expected_score: expected, rank, failure } of scores) {
    const marks = [`score ${number(score, 0)}`, `expected ${number(expected)}`, `place ${rank ?? "none"}`];
    if (failure) marks.push(failure);
    seats[role].querySelector(".marks").replaceChildren(...marks.map((mark) => make("span", { textContent: mark })));
    if (rank === 1) seats[role].classList.add("low");
    if (rank === seats.length) seats[role].classList.add("high");
  }
}
