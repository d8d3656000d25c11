#!/usr/bin/env node
// Plain, old JavaScript: a Node that is too old must be able to run this file, which then prints the error.

var needed = [22, 18];
var found = process.versions.node.split('.').map(Number);
var isTooOld =
  found[0] === 23 ? found[1] < 6 : found[0] < needed[0] || (found[0] === needed[0] && found[1] < needed[1]);

if (isTooOld) {
  process.stderr.write(
    'conch-agent needs Node ' + needed.join('.') + ' or newer, found ' + process.versions.node + '.\n',
  );
  process.exitCode = 7;
} else {
  Promise.all([import('module'), import('url'), import('fs')])
    .then(function (loaded) {
      var packages = loaded[1].fileURLToPath(new URL('../node_modules', import.meta.url));
      // The cache is run as code. It is in this installation, because other users can write to the temporary folder.
      if (loaded[2].existsSync(packages)) loaded[0].enableCompileCache(packages + '/.cache/conch');
      return import('./agents/bridge/bridge.ts');
    })
    .then(function (bridge) {
      return bridge.bridgeMain(process.argv.slice(2));
    })
    .then(function (code) {
      process.exit(code);
    })
    .catch(function (error) {
      process.stderr.write('conch-agent failed unexpectedly: ' + ((error && error.stack) || error) + '\n');
      process.exit(1);
    });
}
