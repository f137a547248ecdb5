// What the commands of everturn run, such as `npm run studio`: engines by name, and the database of the sessions.

import { defineConfig } from "everturn/config";

import { agent } from "./src/agent.ts";
import { withModel } from "./src/model.ts";

export default defineConfig({
  engines: { default: withModel(agent) },
  database: "data/sessions.db",
});
