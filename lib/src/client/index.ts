// Entry point `everturn/client`: a client for `everturn/http`, and a `fetch` for the chat of the AI SDK. Runs wherever `fetch` exists.

export type { ClientErrorReason } from "./errors.ts";
export type { ClientOptions, ClientTurn, EverturnClient, TurnOptions } from "./types.ts";

export { chatFetch } from "./chat-fetch.ts";
export { createClient } from "./client.ts";
export { ClientError } from "./errors.ts";
