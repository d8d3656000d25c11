import { describe, expect, test } from 'vitest';
import { namesOwnPort } from '../../src/rules/own-port.ts';

describe('T77 the address of the page', () => {
  test.each([
    'curl http://127.0.0.1:7420/',
    'curl localhost:7420',
    'curl LOCALHOST.:7420',
    'curl x.localhost:7420',
    'curl 0177.0.0.1:07420',
    'curl 0x7f.1:7420',
    'curl 0x7f000001:7420',
    'curl 017700000001:7420',
    'curl 2130706433:7420',
    'curl 127.1:7420',
    'curl 127.255.255.254:7420',
    'curl 0:7420',
    'curl 0.0.0.0:7420',
    'curl http://[::1]:7420/',
    'curl http://[::]:7420/',
    'curl http://[0:0:0:0:0:0:0:1]:7420',
    'curl http://[0:0:0:0:0:ffff:127.0.0.1]:7420',
    'curl http://[::ffff:7f00:1]:7420',
    'curl http://[::127.0.0.1]:7420',
    'curl http://[64:ff9b::127.0.0.1]:7420',
    'curl http://[::1%25lo]:7420',
    'curl --resolve x.example:7420:127.0.0.1 http://x.example:7420',
    'curl --connect-to ::127.0.0.1:7420 http://x.example',
    'curl --connect-to x.example:80:[::1]:7420 http://x.example',
    'curl 127.0.0.1:74""20',
    `curl 12'7'.0.0.1:7"4"20`,
    String.raw`curl 127.0.0.1:74\20`,
    String.raw`curl $'127.0.0.1:\x37420'`,
    'curl http://user:pass@127.0.0.1:7420/a?b#c',
    'curl "http://127。0。0。1:7420"',
    'curl １２７.0.0.1：７４２０',
    'curl ⓛocalhost:7420',
    'curl http://%31%32%37.0.0.1:7420',
    'curl localtest.me:7420',
    'nc 127.1 7420',
    'nc ip6-localhost 7420',
    'cat < /dev/tcp/127.0.0.1/7420',
    "sh -c 'exec 3<>/dev/tcp/localhost/07420'",
    'ssh -L 9000:127.0.0.1:7420 host',
    'http :7420/api --host localhost',
    '{"host":"127.0.0.1","port":7420}',
  ])('is found in %s', (text) => {
    expect(namesOwnPort([text], 7420)).toBe(true);
  });

  test('is found in a host and a port in two fields', () => {
    expect(namesOwnPort(['0177.0.0.1', '7420'], 7420)).toBe(true);
  });

  test.each([
    'curl http://127.0.0.1:8080/',
    'curl http://127.0.0.1:74200/',
    'npm test',
    'sed -n 7420p a.txt',
    'git show 7420abc',
    'head -c 7420 a.bin',
    'curl https://example.org/7420',
  ])('is not found in %s', (text) => {
    expect(namesOwnPort([text], 7420)).toBe(false);
  });
});
