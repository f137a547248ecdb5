// The server as the page reaches it.

/** The options of `createClient` and `chatTransport`. */
export const server = { url: "/api" };

/** The studio, which `npm run studio` serves. */
export const studio = "http://127.0.0.1:4242/studio/";
