import type { NextConfig } from "next";

const config: NextConfig = {
  // Loaded by Node, not bundled: the storage has a worker thread and a native driver.
  serverExternalPackages: ["everturn", "libsql"],
  // Also if a folder above has a lock file.
  turbopack: { root: import.meta.dirname },
};

export default config;
