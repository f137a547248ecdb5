// Lines of a transcript that say where summaries stand for messages in requests.

import type { Runtime } from "everturn/runtime";

import { plural } from "../commands/text.ts";

/** A session has one frame for many turns. */
const framesShown = 1000;

/**
 * The lines by the index of the message that they precede, for the messages of a session from `first` on. A line that
 * follows the last message has the index after it.
 */
export async function frameLines(
  sessions: Pick<Runtime, "frames">,
  id: string,
  first: number,
): Promise<ReadonlyMap<number, string>> {
  const { items } = await sessions.frames(id, { limit: framesShown });
  const newest = items.findLast(({ undoneAt }) => undoneAt === null);
  return new Map(
    items
      .filter(({ to }) => to >= first)
      .map(({ id: frame, to, summary, pinned, undoneAt }) => {
        const messages = plural(to - pinned.length, "earlier message");
        const instead = summary === null ? "nothing" : "a summary";
        const line =
          undoneAt !== null
            ? `the summary of ${messages} was undone`
            : frame === newest?.id
              ? `the model reads ${instead} in place of ${messages}`
              : `${messages} were summarized here, and again later`;
        return [to - first, line] as const;
      }),
  );
}
