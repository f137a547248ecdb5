// A chat over the HTTP API of `everturn serve`, without a framework.
//
// The session on the server is the only state: the page shows `GET /sessions/ID` and adds the text that arrives meanwhile. So a reload, another tab, a restart of
// the server or a lost connection loses nothing: the server continues its stream after the last event.

import { call, logIn, readEvents } from "./server.js";

const messages = document.querySelector("#messages");
const form = document.querySelector("#form");
const input = document.querySelector("#input");
const statusLine = document.querySelector("#status");

let id = null;
let view = null;
/** Text of the reply that is being written, and what the turn is doing. */
let draft = "";
let activity = "";
let failure = "";
let stopFollowing = () => undefined;

// Loading the session

let isLoading = false;
let isStale = false;

/** Loads the session. Calls while a request is running cause one more request, not one each. */
async function load() {
  isStale = true;
  if (isLoading || id === null) return;
  isLoading = true;
  try {
    while (isStale) {
      isStale = false;
      view = await call("GET", `/sessions/${encodeURIComponent(id)}`);
      render();
    }
  } catch (error) {
    failure = error.message;
    render();
  } finally {
    isLoading = false;
  }
}

// Following its events

function follow() {
  stopFollowing();
  stopFollowing = readEvents(`/sessions/${encodeURIComponent(id)}/events`, {
    onOpen: render,
    onEvent: ({ event }) => handle(event),
    onLost: () => {
      statusLine.textContent = "connecting …";
    },
  });
}

function handle(event) {
  switch (event.type) {
    case "turn_started":
      failure = "";
      activity = "thinking …";
      break;
    case "message_started":
    case "step_reset": // The reply is generated again: discard what was shown of it.
      draft = "";
      break;
    case "text_delta":
      draft += event.delta;
      activity = "";
      break;
    case "tool_execution_started":
      activity = `running ${event.name} …`;
      break;
    case "error":
      failure = event.error.message;
      break;
    case "step_completed":
    case "chat_completed":
      draft = "";
      activity = event.type === "chat_completed" ? "" : activity;
      break;
    default:
      return;
  }
  if (event.type === "text_delta") render();
  else load();
}

// Showing it

function bubble(kind, text) {
  const element = document.createElement("div");
  element.className = `message ${kind}`;
  element.textContent = text;
  return element;
}

function button(label, onClick) {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = label;
  element.addEventListener("click", onClick);
  return element;
}

/** A tool call that waits for a person. */
function approval({ id: toolCallId, name, arguments: given }) {
  const element = bubble("approval", `May ${name} run?\n${JSON.stringify(given, null, 2)}`);
  const decide = async (type) => {
    for (const other of element.querySelectorAll("button")) other.disabled = true;
    await attempt(() =>
      call("POST", `/sessions/${encodeURIComponent(id)}/decisions`, { toolCallId, type, by: "page" }),
    );
    load();
  };
  element.append(
    document.createElement("br"),
    button("Approve", () => decide("approve")),
    button("Deny", () => decide("deny")),
  );
  return element;
}

function textOf(content) {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("");
}

function render() {
  const { thread = { messages: [] }, pendingToolCalls = [], status = "" } = view?.session ?? {};
  const shown = thread.messages.flatMap((message) => {
    const text = textOf(message.content);
    return text === "" || message.role === "system" ? [] : [bubble(message.role, text)];
  });
  const waiting = pendingToolCalls.filter((pending) => pending.reason === "approval" && pending.decision === null);
  messages.replaceChildren(...shown, ...waiting.map(approval));
  if (draft !== "") messages.append(bubble("assistant", draft));
  if (failure !== "") messages.append(bubble("failure", failure));
  statusLine.textContent =
    waiting.length > 0 ? "waits for your approval" : activity || (status === "error" ? "failed" : "");
  messages.scrollTop = messages.scrollHeight;
}

// Sending

/** Runs a request and shows its error. Returns whether it succeeded. */
async function attempt(request) {
  try {
    await request();
    return true;
  } catch (error) {
    failure = error.message;
    render();
    return false;
  }
}

async function send(text) {
  failure = "";
  if (id === null) {
    const started = await call("POST", "/sessions", { input: text });
    id = started.sessionId;
    history.replaceState(null, "", `#${id}`);
    follow();
  } else {
    const path = `/sessions/${encodeURIComponent(id)}`;
    // After a failed turn the session is made usable first.
    if (view?.session.status === "error") await call("POST", `${path}/recover`, {});
    await call("POST", `${path}/send`, { text });
  }
  load();
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = input.value.trim();
  if (text === "") return;
  input.value = "";
  if (!(await attempt(() => send(text)))) input.value = text;
});

document.querySelector("#new").addEventListener("click", () => {
  history.replaceState(null, "", location.pathname);
  location.reload();
});
addEventListener("hashchange", () => location.reload());

await attempt(logIn);
id = location.hash.slice(1) || null;
if (id !== null) {
  follow();
  load();
}
