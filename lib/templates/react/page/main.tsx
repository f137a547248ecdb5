// Loads the chat that the address names (`?chat=…`), or begins a new one.

import type { Message } from "./chat.tsx";

import { createClient } from "everturn/client";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { Chat } from "./chat.tsx";
import { server } from "./server.ts";

const id = new URLSearchParams(location.search).get("chat") ?? crypto.randomUUID();
history.replaceState(null, "", `?chat=${id}${location.hash}`);

const chat = await createClient(server).chat(id);
// The messages are JSON, of the type that the engine gives them.
const messages: Message[] = JSON.parse(JSON.stringify(chat.messages));

const page = document.querySelector("#page");
if (page !== null) {
  createRoot(page).render(
    <StrictMode>
      <Chat id={id} loaded={messages} />
    </StrictMode>,
  );
}
