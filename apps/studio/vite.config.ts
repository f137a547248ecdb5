// Builds the studio into the published package: lib/studio, from where `serveStudio` serves it. `npm run build` calls this
// configuration through tools/package/studio.ts.
//
// The server sends the page with a strict Content-Security-Policy: no inline script or style, and no data: URLs for
// fonts (`assetsInlineLimit: 0`).

import react from "@vitejs/plugin-react";
import { defaultClientConditions, defineConfig } from "vite";

/** The server that answers requests of the development page, which `vite` alone serves. */
const target = process.env["EVERTURN_URL"] ?? "http://127.0.0.1:4242";

export default defineConfig(({ command }) => ({
  root: import.meta.dirname,
  // The build has relative references only, so that it can be served at any path.
  base: command === "build" ? "./" : "/studio/",
  plugins: [react()],
  // The client is bundled from its sources, so that the studio needs no build of the library first.
  resolve: { conditions: ["source", ...defaultClientConditions] },
  build: {
    outDir: "../../lib/studio",
    emptyOutDir: true,
    target: "es2023",
    sourcemap: true,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    // Every browser of the target has it; the polyfill would only add bytes.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  // The server rejects requests that pages of other origins send.
  server: {
    port: 5173,
    proxy: { "^/(?!studio(?:/|$))": { target, changeOrigin: true, headers: { origin: target } } },
  },
}));
