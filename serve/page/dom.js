// Small helpers; text always goes in as text, never as HTML.

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

export function options(select, values, chosen, any = false) {
  const found = any ? [["", "any"], ...values.map((v) => [v, v])] : values.map((v) => [v, v]);
  select.replaceChildren(...found.map(([value, label]) => make("option", { value, textContent: label })));
  if (chosen !== undefined && chosen !== null) select.value = chosen;
}

export const number = (value, digits = 2) =>
  value === null || value === undefined ? "none" : value.toFixed(digits);

// Runs `work(signal)` with its button off and its stop button on; tells what went wrong.
export async function busy(button, stop, status, work) {
  const control = new AbortController();
  const end = () => control.abort();
  button.disabled = true;
  stop.hidden = false;
  stop.addEventListener("click", end);
  status.classList.remove("wrong");
  try {
    await work(control.signal);
  } catch (error) {
    status.textContent = control.signal.aborted ? "Stopped." : error.message;
    status.classList.toggle("wrong", !control.signal.aborted);
    if (error.status === 401) document.dispatchEvent(new Event("key-needed"));
  } finally {
    stop.removeEventListener("click", end);
    button.disabled = false;
    stop.hidden = true;
  }
}
