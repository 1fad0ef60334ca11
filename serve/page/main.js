// The five views of the page, and the key where the server asks for one.

import * as ask from "/page/ask.js";
import * as debate from "/page/debate.js";
import * as debias from "/page/debias.js";
import { $ } from "/page/dom.js";
import * as label from "/page/label.js";
import { get, key } from "/page/net.js";
import * as run from "/page/run.js";

const VIEWS = ["ask", "debate", "debias", "label", "run"];

function view() {
  const chosen = VIEWS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "ask";
  for (const name of VIEWS) $(name).hidden = name !== chosen;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  scrollTo(0, 0);
  if (chosen === "run") run.show();
}

let started = false;

function askForKey() {
  $("key-form").hidden = false;
  $("key").focus();
}

async function begin() {
  try {
    const about = await get("/v1/about");
    $("key-form").hidden = true;
    // A new key begins anew, but the forms are listened to once.
    if (!started) for (const part of [ask, debate, debias, label, run]) part.start(about);
    started = true;
    view();
  } catch (error) {
    if (error.status === 401) return askForKey();
    $("ask-status").textContent = error.message;
    $("ask-status").classList.add("wrong");
  }
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set($("key").value.trim());
  begin();
});
document.addEventListener("key-needed", askForKey);
addEventListener("hashchange", view);
begin();
