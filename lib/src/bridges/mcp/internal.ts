// Names of this folder that sibling folders of lib/src import. Not an entry point of the package: any release may
// change this list.

export type { McpServerEntry } from "./servers.ts";
