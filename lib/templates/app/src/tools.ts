// The tools of the agent. Replace them with yours.

import { askAndResume, tool } from "everturn";
import { z } from "zod";

export const bookTable = tool({
  name: "book_table",
  description: "Books a table in the restaurant.",
  schema: z.object({
    name: z.string().meta({ description: "The name of the guest.", examples: ["Ada"] }),
    guests: z
      .int()
      .min(1)
      .max(12)
      .meta({ examples: [2] }),
    time: z.string().meta({ description: "The time, such as 20:00.", examples: ["20:00"] }),
  }),
  // A person decides before the tool runs: in the page, in the terminal, or over HTTP. The session may wait for days.
  needsApproval: true,
  // Not run again if the process dies while it runs. With "safe" it would be.
  replay: "never",
  handler: (table, { idempotencyKey }) => book({ ...table, idempotencyKey }),
});

export const suggestMenu = tool({
  name: "suggest_menu",
  description: "Asks the guest what they eat, and suggests a menu.",
  schema: z.object({}),
  // It only reads, so it may run again after a crash.
  replay: "safe",
  // The turn ends with the question. The answer starts the next one, in which the handler runs again.
  handler: (_, { answer }) =>
    answer === null
      ? askAndResume("What do you eat?", { opts: { choices: ["everything", "vegetarian", "vegan"] } })
      : `The menu of the day, ${answer.text}.`,
});

type Booking = { name: string; guests: number; time: string; idempotencyKey: string };

/** Replace it with a request to your booking system. Send the key with it: a repeated request then books once. */
async function book({ name, guests, time }: Booking): Promise<string> {
  return `booked a table for ${guests} at ${time}, for ${name}`;
}
