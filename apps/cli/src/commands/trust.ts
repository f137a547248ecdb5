// `everturn trust`: records that the user trusts the configuration file of this folder as it is now. It does not read
// or run the file, apart from its digest (apps/server/src/trust.ts).

import type { CommandContext } from "./context.ts";

import { basename } from "node:path";

import { digestOf, distrustFolder, findConfig, systemOf, trustConfig, trustStorePath } from "@everturn/server";

import { safeText } from "../terminal/safe-text.ts";
import { UsageError } from "./context.ts";
import { exitCodes } from "./exit-codes.ts";

export async function trust(
  { io, say, note, err }: CommandContext,
  { remove }: { readonly remove: boolean },
): Promise<number> {
  const system = systemOf(io.environment);
  if (remove) {
    say(distrustFolder(io.folder, system) ? "this folder is trusted no more" : "this folder was not trusted");
    return exitCodes.ok;
  }
  const path = findConfig(io.folder);
  if (path === null) throw new UsageError(`there is no everturn.config.{ts,mjs,js,json} in ${io.folder}`);
  const files = trustConfig(path, system);
  const others = Object.keys(files).filter((file) => file !== basename(path));
  say(safeText(`trusted ${path}, sha256 ${digestOf(files).slice(0, 16)}`));
  if (others.length > 0) say(safeText(`  with ${others.join(", ")}`));
  note(
    err.dim(
      `Files that it names by a computed path, and packages, are not covered. Stored in ${trustStorePath(system)}`,
    ),
  );
  return exitCodes.ok;
}
