// Builds the studio into the published package: lib/studio. The server serves it under /studio/.

import react from "@vitejs/plugin-react";
import { defaultClientConditions, defineConfig } from "vite";

export default defineConfig({
  base: "/studio/",
  plugins: [react()],
  // The client is bundled from its sources, so that the studio needs no build of the library first.
  resolve: { conditions: ["source", ...defaultClientConditions] },
  build: { outDir: "../../lib/studio", emptyOutDir: true, target: "es2023", assetsInlineLimit: 0 },
  // `vite` alone serves the page for development, and passes requests to a server that `npm start` has started.
  server: { port: 5173, proxy: { "^/(?!studio/)": "http://127.0.0.1:4242" } },
});
