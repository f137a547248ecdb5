// A chat over the HTTP API of `everturn serve`, without a framework.
//
// `conversation` follows the session, which is stored on the server alone: a reload, another tab, a restart of the server or a lost connection loses nothing. What a
// person approves is what runs: a call that waits is shown with all that an approval runs, and the decision carries the digest of the call that was shown.

import { conversation } from "everturn/client";

import { client, errorText, loggedIn } from "./server.js";
import { show } from "./view.js";

const [form, input, newChat] = ["#form", "#input", "#new"].map((id) => document.querySelector(id));
let chat = null;
let failure = "";

function open(id) {
  chat = conversation(client, id);
  chat.subscribe(render);
}

function render() {
  const snapshot = chat?.snapshot() ?? { messages: [], turn: null, pending: [] };
  const lost = snapshot.error ? errorText(snapshot.error) : "";
  show(snapshot, failure || lost, (call, decision) => attempt(() => chat.decide(call, decision)));
}

/** Runs a request and shows its error. Returns whether it succeeded. */
async function attempt(request) {
  failure = "";
  await request().catch((error) => (failure = errorText(error)));
  render();
  return failure === "";
}

async function send(text) {
  if (chat !== null) return chat.send(text);
  const { sessionId } = await client.start(text);
  history.replaceState(null, "", `#${sessionId}`);
  return open(sessionId);
}

// The text stays in the field until it is sent, and text that is typed meanwhile is kept.
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = input.value;
  if (text.trim() === "" || input.ariaBusy === "true") return;
  input.ariaBusy = "true";
  if (await attempt(() => send(text.trim()))) input.value = input.value.replace(text, "");
  input.ariaBusy = "false";
});
newChat.addEventListener("click", () => {
  history.replaceState(null, "", location.pathname);
  location.reload();
});
addEventListener("hashchange", () => location.reload());
// Decisions of other people about one of several calls have no event.
for (const type of ["focus", "online"]) addEventListener(type, () => chat?.reconnect());

await attempt(() => loggedIn);
if (location.hash !== "") open(location.hash.slice(1));
