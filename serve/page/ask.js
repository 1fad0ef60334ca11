// Two models answer the same question side by side; then both answers are scored.

import { $, busy, make, number, options } from "/page/dom.js";
import { post, stream } from "/page/net.js";

export function start(about) {
  const right = about.models.find((name) => name !== "base") ?? about.default;
  options($("left"), about.models, about.models.includes("base") ? "base" : about.models.at(-1));
  options($("right"), about.models, right);
  $("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    busy($("ask-button"), $("ask-stop"), $("ask-status"), (signal) => ask(about, signal));
  });
  $("ask-button").disabled = false;
  $("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    if (!$("ask-button").disabled) $("ask-form").requestSubmit();
  });
}

async function ask(about, signal) {
  const question = $("question").value.trim();
  const trained = about.answer_prompt.replace("{topic}", question);
  const prompt = $("as-trained").checked ? trained : question;
  const models = [...new Set([$("left").value, $("right").value])];
  const cards = models.map((model) => card(model));
  $("answers").replaceChildren(...cards.map((found) => found.element));
  $("ask-status").textContent = "Answering…";
  await Promise.all(models.map((model, i) => answer(model, prompt, cards[i], signal)));
  $("ask-status").textContent = "Scoring…";
  await score(about, prompt, cards, signal);
  $("ask-status").textContent = "Done.";
}

function card(model) {
  const text = make("p", { className: "writing" });
  const marks = make("p", { className: "marks" });
  const element = make("article", { className: "card" }, make("h3", { textContent: model }), text, marks);
  element.dataset.model = model;
  return { element, text, marks };
}

async function answer(model, prompt, { text }, signal) {
  const messages = [{ role: "user", content: prompt }];
  const body = { model, messages, stream: true, max_tokens: 160, temperature: 0.7, seed: 1 };
  try {
    for await (const { data } of stream("/v1/chat/completions", body, signal)) {
      if (data.error) throw new Error(data.error.message);
      text.append(data.choices[0]?.delta?.content ?? "");
    }
  } finally {
    text.classList.remove("writing");
  }
}

async function score(about, prompt, cards, signal) {
  const input = cards.map(({ text }) => text.textContent || " ");
  const found = await post("/v1/bias", { input, prompt, referee: true }, signal);
  found.data.forEach((row, i) => {
    const marks = [];
    if (about.reward) marks.push(mark("reward", number(row.reward)));
    marks.push(mark("score", number(row.score, 0)), mark("expected score", number(row.expected_score)));
    cards[i].marks.replaceChildren(...marks);
  });
}

const mark = (name, value) => make("span", {}, `${name} `, make("b", { textContent: value }));
