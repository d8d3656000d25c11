#!/usr/bin/env node
// Plain, old JavaScript: on a Node that is too old this file must still say so.

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
  import('./agents/bridge/bridge.ts')
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
