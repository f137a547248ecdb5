// The dialect of the AI SDK's chat, as an option of the handler.

import type { Dialect } from "../../http/internal.ts";

import { uiRoutes } from "./routes.ts";

/**
 * The AI SDK's chat: a {@link Dialect} that serves `useChat` of versions 6 and 7 at `/ui/chat`. The chat id is the
 * session id.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/runtime";
 * import { aiSdkChat, createHandler } from "everturn/http";
 * import { runtime } from "everturn/runtime";
 *
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
 * const handler = createHandler({ sessions, auth: "none", dialects: [aiSdkChat()] });
 *
 * const message = { id: "m1", role: "user", parts: [{ type: "text", text: "hi" }] };
 * const response = await handler(
 *   new Request("http://localhost/ui/chat", {
 *     method: "POST",
 *     headers: { "content-type": "application/json" },
 *     body: JSON.stringify({ id: "chat", messages: [message] }),
 *   }),
 * );
 * (await response.text()).includes('"type":"text-delta"'); // => true
 * ```
 */
export function aiSdkChat(): Dialect {
  return { name: "ai-sdk-chat", routes: ({ policy }) => uiRoutes(policy) };
}
