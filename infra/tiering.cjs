// The CDK's validator is WebAssembly of 9 MB that runs for a second or two: to optimize its functions
// takes V8 longer than to run them as they are. Not a flag that NODE_OPTIONS may hold, and known to these.
if (["20", "22", "24"].includes(process.versions.node.split(".")[0])) {
  require("node:v8").setFlagsFromString("--wasm-tiering-budget=1000000000");
}
