// What the commands of everturn run: engines by name, the database of the sessions, and the folder of the built page.

import { defineConfig } from "everturn/config";

import { agent } from "./src/agent.ts";

export default defineConfig({
  engines: { default: agent },
  database: "data/sessions.db",
  static: "dist",
});
