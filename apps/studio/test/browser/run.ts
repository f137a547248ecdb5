// `npm run test:studio`: the studio in a real Chromium, against real servers. It prints measurements, and fails if a
// flow fails, a view is not accessible, scrolling blocks the page, or content of a message does anything but being
// shown.
//
//   tsx --conditions=source apps/studio/test/browser/run.ts                      all of it
//   tsx --conditions=source apps/studio/test/browser/run.ts flows --only fork    or some of it: flows, looks, small, hostile, performance
//   … --shots DIR                                                                where screenshots are written; default: the temporary folder
//
// It needs a build (`npm run build`) and Debian's chromium, or the program that EVERTURN_CHROMIUM names. Without one it
// says so and ends with exit code 0.

import type { Flow } from "./flow.ts";
import type { Browser } from "playwright-core";

import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { findChromium, startChromium } from "./chromium.ts";
import { runFlows } from "./flow.ts";
import { commonFlows } from "./flows.ts";
import { accessFlows } from "./flows/access.ts";
import { accessibilityFlows } from "./flows/accessibility.ts";
import { approvalFlows } from "./flows/approvals.ts";
import { auditFlows } from "./flows/audit.ts";
import { childFlows } from "./flows/child-agents.ts";
import { circumstanceFlows } from "./flows/circumstances.ts";
import { componentFlows } from "./flows/components.ts";
import { contextFlows } from "./flows/context-window.ts";
import { filterFlows } from "./flows/filters.ts";
import { firstStepFlows } from "./flows/first-steps.ts";
import { followFlows } from "./flows/following.ts";
import { forkFlows } from "./flows/forks-and-runs.ts";
import { formattedTextFlows } from "./flows/formatted-text.ts";
import { hostFlows } from "./flows/hosts.ts";
import { idleFlows } from "./flows/idle-page.ts";
import { inboxFlows } from "./flows/inbox.ts";
import { keyboardFlows } from "./flows/keyboard.ts";
import { linkFlows } from "./flows/links-and-copies.ts";
import { messageFlows } from "./flows/messages.ts";
import { requestFlows } from "./flows/requests-of-steps.ts";
import { runAgainFlows } from "./flows/run-again.ts";
import { storedNoteFlows } from "./flows/stored-notes.ts";
import { tenantFlows } from "./flows/tenants.ts";
import { waitingFlows } from "./flows/waiting-calls.ts";
import { checkHostileContent } from "./hostile.ts";
import { checkLooks } from "./looks.ts";
import { measurePerformance } from "./performance.ts";
import { cleanUp } from "./server.ts";
import { checkSmallScreens } from "./small-screens.ts";

type Part = (browser: Browser, shots: string, only: string) => Promise<readonly string[]>;

const flows: readonly Flow[] = [
  ...commonFlows,
  ...waitingFlows,
  ...approvalFlows,
  ...messageFlows,
  ...childFlows,
  ...componentFlows,
  ...contextFlows,
  ...firstStepFlows,
  ...followFlows,
  ...formattedTextFlows,
  ...circumstanceFlows,
  ...requestFlows,
  ...idleFlows,
  ...inboxFlows,
  ...filterFlows,
  ...runAgainFlows,
  ...storedNoteFlows,
  ...forkFlows,
  ...linkFlows,
  ...accessFlows,
  ...tenantFlows,
  ...auditFlows,
  ...keyboardFlows,
  ...accessibilityFlows,
  ...hostFlows,
];

const parts: { readonly [name: string]: Part } = {
  flows: async (browser, shots, only) => runFlows(flows, browser, shots, only),
  looks: checkLooks,
  small: checkSmallScreens,
  hostile: checkHostileContent,
  performance: measurePerformance,
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    shots: { type: "string", default: join(tmpdir(), "everturn-studio-shots") },
    only: { type: "string", default: "" },
  },
});

const path = findChromium();
if (path === null) {
  console.log(
    "The tests of the studio were skipped: there is no Chromium (EVERTURN_CHROMIUM, chromium, chromium-browser, google-chrome).",
  );
} else {
  mkdirSync(values.shots, { recursive: true });
  const browser = await startChromium(path);
  const faults: string[] = [];
  try {
    console.log(`Chromium ${browser.version()}, screenshots in ${values.shots}`);
    for (const [name, run] of Object.entries(parts)) {
      if (positionals.length > 0 && !positionals.includes(name)) continue;
      console.log(`\n${name}`);
      faults.push(...(await run(browser, values.shots, values.only)));
    }
  } finally {
    await browser.close();
    await cleanUp();
  }

  console.log(faults.length === 0 ? "\nThe studio passed." : `\n${faults.length} faults`);
  if (faults.length > 0) process.exitCode = 1;
}
