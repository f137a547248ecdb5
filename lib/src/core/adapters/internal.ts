// Names that sibling folders of lib/src use besides the public ones. This is not an entry point of the package: nothing
// listed here is covered by the rules for public names, and any of it can change in any release.

export * from "./index.ts";
export * from "./advanced.ts";

export type { FakeOptions } from "./fake.ts";
export { headersOfCall } from "./call-headers.ts";
export { checkCallOptions } from "./call-options.ts";
export { modelNameFor } from "./model-name.ts";
export { checkProviderOptions } from "./adapter-rules.ts";
export { compatibleServer, geminiServer, openaiServer } from "./base-url.ts";
export type { JsonServer } from "./json-request.ts";
export { jsonServer, requestJson } from "./json-request.ts";
export { checkUserContent } from "./user-content.ts";
