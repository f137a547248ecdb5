// Names of this folder that sibling folders of lib/src import. Not an entry point of the package: any release may
// change this list.

export { agUi } from "./ag-ui/dialect.ts";
export { aiSdkChat } from "./ai-sdk-chat/dialect.ts";
export { openaiCompletions } from "./openai/dialect.ts";
