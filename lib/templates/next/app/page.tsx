"use client";

import dynamic from "next/dynamic";

// The chat is loaded by the browser, from the API.
export default dynamic(() => import("../page/page.tsx").then(({ Page }) => Page), { ssr: false });
