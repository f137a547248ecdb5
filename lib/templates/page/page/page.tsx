// Loads the chat that the address names (`?chat=…`), or begins a new one. This module runs in browsers only.

import type { Message } from "./chat.tsx";

import { createClient } from "everturn/client";
import { Suspense, use } from "react";

import { Chat } from "./chat.tsx";
import { server } from "./server.ts";

const id = new URLSearchParams(location.search).get("chat") ?? crypto.randomUUID();
history.replaceState(null, "", `?chat=${id}${location.hash}`);

const loading = load();

async function load(): Promise<Message[]> {
  const { messages } = await createClient(server).chat(id);
  // The messages are JSON, of the type that the engine gives them.
  return JSON.parse(JSON.stringify(messages));
}

export function Page() {
  return (
    <Suspense fallback={null}>
      <LoadedChat />
    </Suspense>
  );
}

function LoadedChat() {
  return <Chat id={id} loaded={use(loading)} />;
}
