// `npm run build` writes the page into dist. `npm run dev` serves it with hot reload, beside `npm start`.

import { defineConfig } from "vite";

export default defineConfig({ server: { proxy: { "/api": "http://127.0.0.1:3000" } } });
