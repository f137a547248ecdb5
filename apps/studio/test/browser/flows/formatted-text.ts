// Formatted text of messages: formulas, which are MathML, and tables, which scroll inside of the message.

import type { Flow } from "../flow.ts";

import { seeEnd, startSession, talk } from "../flow.ts";
import { sidewaysScroll } from "../looks.ts";
import { check, until } from "../watched-page.ts";
import { testConfig } from "./waiting-calls.ts";

const formulas = [
  "The roots are $x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$, which cost $5 and not $10.",
  "\\[\n\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}\n\\]",
  "$$\\int_0^1 x^2 \\, dx = \\tfrac{1}{3}$$",
  "A broken one: $\\frac{1}{$ and one that asks for a link: $\\href{https://example.com}{x}$.",
  "`$code$` stays.",
].join("\n\n");

const table = [
  `| ${Array.from({ length: 14 }, (_, column) => `a long column ${column}`).join(" | ")} |`,
  `| ${Array.from({ length: 14 }, () => "---:").join(" | ")} |`,
  `| ${Array.from({ length: 14 }, (_, column) => `${column * 1000}`).join(" | ")} |`,
].join("\n");

export const formattedTextFlows: readonly Flow[] = [
  {
    name: "formulas of a reply are MathML, prices and code are not, and a broken formula shows its source",
    run: async ({ open, start }) => {
      const { page, requested } = await open("", await start({ database: "formulas.db", config: testConfig }));
      await startSession(page, `====\n${formulas}\n====`);
      await seeEnd(page);
      const reply = talk(page).locator("article.msg.assistant").last();
      await until(
        "three formulas are converted",
        async () => reply.locator("math").count(),
        (count) => count === 3,
      );
      check((await reply.locator("math mfrac").count()) === 2, "a fraction is missing");
      check((await reply.locator("math msqrt").count()) === 1, "the root is missing");
      check((await reply.locator("math mtd").count()) === 4, "the matrix has not four cells");
      const shown = await reply.innerText();
      check(shown.includes("which cost $5 and not $10."), "prices are shown as a formula");
      check(shown.includes("\\frac{1}{"), "the source of the broken formula is not shown");
      check((await reply.locator("a").count()) === 0, "a formula has made a link");
      check((await reply.locator("code", { hasText: "$code$" }).count()) === 1, "code is shown as a formula");
      const display = await reply.locator(".formula.display math").first().boundingBox();
      check((display?.height ?? 0) > 20, `the matrix is ${display?.height} px high`);
      check(
        requested.filter((url) => url.includes("/temml")).length === 1,
        "the converter is not loaded once, on demand",
      );
    },
  },
  {
    name: "a wide table scrolls inside of its message, also on a phone and by keyboard",
    run: async ({ open, start }) => {
      const server = await start({ database: "tables.db", config: testConfig });
      for (const width of [1440, 390]) {
        const { page } = await open("", server, { width, height: 844 });
        await startSession(page, `====\n${table}\n====`);
        await seeEnd(page);
        const frame = talk(page).locator("article.msg.assistant").getByRole("region", { name: "Table" });
        await frame.waitFor();
        check((await frame.getByRole("columnheader").count()) === 14, "the table has not 14 columns");
        const [inner = 0, outer = 0] = await frame.evaluate((element) => [element.scrollWidth, element.clientWidth]);
        check(inner > outer, `the table is ${inner} px wide in ${outer} px`);
        const faults = await sidewaysScroll(page);
        check(faults.length === 0, faults.join(", "));
        await frame.focus();
        await page.keyboard.press("ArrowRight");
        await until(
          "the arrow key scrolls the table",
          async () => frame.evaluate((element) => element.scrollLeft),
          (left) => left > 0,
          5000,
        );
        await page.close();
      }
    },
  },
];
