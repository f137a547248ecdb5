// The program of the page: the scenes, and the client, with a handler in the same page and with the worker, which is another origin.

import type { Stage, SceneResults } from "./scenes.ts";
import type { Json } from "everturn";
import type { EverturnClient } from "everturn/client";

import { createClient } from "everturn/client";
import { memoryStorage } from "everturn/host/memory";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";

import { agentOf, play as playScenes } from "./scenes.ts";

/** The configuration of the page. */
type PageStage = Stage & { readonly worker: string | null; readonly token: string };

export async function play(stage: PageStage): Promise<SceneResults> {
  const results: SceneResults = { ...(await playScenes(stage)), inside: await talked(inPage(stage)) };
  if (stage.worker === null) return results;
  return { ...results, outside: await talked(createClient({ url: `${stage.worker}/kept`, token: stage.token })) };
}

/** A `fetch` that calls a handler in the same page. */
function inPage(stage: PageStage): EverturnClient {
  const sessions = runtime({ host: memoryStorage(), engines: { default: agentOf(stage) } });
  const handler = createHandler({ sessions, auth: [{ token: stage.token }] });
  return createClient({
    url: "http://in-page.test",
    token: stage.token,
    fetch: (url, init) => handler(new Request(url, init)),
  });
}

async function talked(client: EverturnClient): Promise<Json> {
  try {
    const turn = await client.start("The weather in Zürich?", { id: "from-the-page" });
    let [shown, cursor] = ["", ""];
    for await (const { event, cursor: at } of turn.events) {
      if (event.type !== "text_delta") continue;
      shown += event.delta;
      if (cursor === "") cursor = at;
    }
    const rest: string[] = [];
    for await (const { event } of client.events("from-the-page", { after: cursor, follow: false })) {
      rest.push(event.type);
    }
    const endless = await client.start("Tell me something for ever.", { id: "for-ever" });
    for await (const { event } of endless.events) if (event.type === "text_delta") break;
    const cancelled = await client.cancel("for-ever", { turnId: endless.turnId ?? "" });
    const { status } = (await turn.result).session;
    return { shown, status, last: rest.at(-1) ?? null, cancelled };
  } catch (error) {
    return `failed: ${String(error)}`;
  }
}
