// A question through the loop as it goes: first steps, each rewriting with its verdict, the answer.

import { $, busy, make, options } from "/page/dom.js";
import { stream } from "/page/net.js";

const NOTHING = "nothing";

export function start(about) {
  options($("debias-model"), about.models, about.default);
  options($("debias-corpus"), [NOTHING, ...about.corpora], NOTHING);
  $("debias-passes").max = about.debate_rounds;
  $("debias-form").addEventListener("submit", (event) => {
    event.preventDefault();
    busy($("debias-button"), $("debias-stop"), $("debias-status"), hold);
  });
  $("debias-button").disabled = false;
}

async function hold(signal) {
  const context = $("debias-context").value.trim();
  const question = $("debias-question").value.trim();
  const corpus = $("debias-corpus").value;
  const body = {
    messages: [context, question].filter(Boolean).map((content) => ({ role: "user", content })),
    options: $("debias-options").value.split("\n").map((line) => line.trim()).filter(Boolean),
    corpus: corpus === NOTHING ? null : corpus,
    max_passes: Number($("debias-passes").value),
    model: $("debias-model").value,
  };
  $("debias-steps").replaceChildren();
  $("debias-status").textContent = "The model reasons, and the judge reads…";
  for await (const { event, data } of stream("/v1/debias", body, signal)) {
    if (event === "solved") {
      show("First reasoning", data, `answer: ${data.answer ?? "none of the options"}`);
      $("debias-status").textContent = "The judge finds something, or the answer follows…";
    } else if (event === "pass") show(`Rewriting ${data.number}`, data, data.accepted ? "taken" : "not taken");
    else if (event === "answer") ended(data);
    else if (event === "error") throw new Error(data.message);
    else if (event === "done") $("debias-status").textContent += ` ${data.tokens} tokens.`;
  }
}

function show(title, { steps, verdict, queries = [], sources = [] }, note) {
  const marks = verdict
    ? [`bias ${verdict.bias}: ${verdict.bias_reason}`, `relevancy ${verdict.relevancy}: ${verdict.relevancy_reason}`]
    : ["no verdict: the judge's text did not parse"];
  const card = make("article", { className: "card" }, make("h3", { textContent: title }), make("p", { textContent: steps }));
  if (queries.length) card.append(make("p", { className: "quiet", textContent: `searched: ${queries.join("; ")}` }));
  // Addresses are text: nobody here has looked where they lead.
  if (sources.length) card.append(make("ul", {}, ...sources.map(({ title, url }) => make("li", { textContent: url ? `${title} (${url})` : title }))));
  card.append(make("p", { className: "marks" }, ...[...marks, note].map((mark) => make("span", { textContent: mark }))));
  $("debias-steps").append(card);
}

function ended({ answer, stop, changed }) {
  $("debias-steps").append(make("article", { className: "card low" }, make("h3", { textContent: `Answer: ${answer ?? "none of the options"}` })));
  // Null of a free answer, or of one that is none.
  const compared = changed === null ? "" : `; the answer ${changed ? "changed" : "is the first one"}`;
  $("debias-status").textContent = `${stop[0].toUpperCase()}${stop.slice(1)}${compared}.`;
}
