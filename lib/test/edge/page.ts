// The program of the page: the scenes, and the client, with a handler in the same page and with the worker, which is
// another origin.

import type { Stage, SceneResults } from "./scenes.ts";
import type { Json } from "everturn";
import type { EverturnClient } from "everturn/client";

import { createClient } from "everturn/client";
import { createHandler } from "everturn/http";
import { quickjs } from "everturn/quickjs";
import { memoryStorage, runtime } from "everturn/runtime";

import { agentOf, play as playScenes } from "./scenes.ts";

/** The configuration of the page. */
type PageStage = Stage & { readonly worker: string | null; readonly token: string };

export async function play(stage: PageStage): Promise<SceneResults> {
  const results: SceneResults = {
    ...(await playScenes(stage)),
    inside: await talked(inPage(stage)),
    sandbox: await ranCells(),
  };
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

/** Runs cells in a web worker: one that never ends, and one after it. */
async function ranCells(): Promise<Json> {
  try {
    const limits = {
      instructions: 1e9,
      memoryBytes: 64e6,
      calls: 1,
      output: 1000,
      data: 1000,
      timeMs: 500,
      totalTimeMs: 5000,
    };
    const cell = { cellId: "cell", calls: [], tools: [], limits, signal: new AbortController().signal };
    const executor = quickjs({ workers: 1 });
    let [ticks, last, longest] = [0, performance.now(), 0];
    const timer = setInterval(() => {
      const now = performance.now();
      [ticks, last, longest] = [ticks + 1, now, Math.max(longest, now - last)];
    }, 5);
    const endless = await executor.run({ ...cell, code: "Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)" });
    clearInterval(timer);
    const next = await executor.run({ ...cell, code: "print('after')" });
    return { endless, next, isResponsive: ticks > 10 && longest < 250 };
  } catch (error) {
    return `failed: ${String(error)}`;
  }
}
