/** Slack's name for an emoji that is a likely picture of an agent; `null` for one that is not in this list. */
export function emojiName(emoji: string): string | null {
  return NAMES.get(bare(emoji)) ?? null;
}

const LIST = `
🤖 robot_face 🧭 compass 🛠 hammer_and_wrench 🔎 mag_right 🔍 mag 🧪 test_tube 🐛 bug 🚀 rocket 📝 memo 📚 books 💡 bulb
🎨 art 🔧 wrench 🔨 hammer ⚙ gear 🧠 brain 👀 eyes 🦊 fox_face 🐙 octopus 🐳 whale 🦉 owl 🐝 bee 🐢 turtle 🦀 crab
🐍 snake 🐧 penguin 🐱 cat 🐶 dog 🦁 lion_face 🐼 panda_face 🐻 bear 🦄 unicorn_face 🐸 frog 🐚 shell 👷 construction_worker
🕵 sleuth_or_spy 🧙 mage 🥷 ninja 👩‍💻 female-technologist 👨‍💻 male-technologist 🧑‍💻 technologist 👩‍🔬 female-scientist
👨‍🔬 male-scientist 🧑‍🔬 scientist 🧑‍🎨 artist 🧑‍🏫 teacher 🧑‍⚖ judge 🧑‍🔧 mechanic 🧑‍✈ pilot 🧑‍🚀 astronaut 📊 bar_chart
📈 chart_with_upwards_trend 📋 clipboard 📌 pushpin 🔒 lock 🔐 closed_lock_with_key 🛡 shield ⚡ zap 🔥 fire ⭐ star 🌟 star2
✨ sparkles 🎯 dart 🏗 building_construction 📦 package 👻 ghost 👽 alien 🤓 nerd_face 🧐 face_with_monocle 😎 sunglasses
🎤 microphone 💬 speech_balloon ✅ white_check_mark ✏ pencil2 🧹 broom 🧰 toolbox 🔬 microscope 🔭 telescope 🌍 earth_africa
🌱 seedling 🌈 rainbow 🍀 four_leaf_clover 👑 crown 🎩 tophat 📣 mega 🗂 card_index_dividers 💻 computer 🖥 desktop_computer
📐 triangular_ruler 🧩 jigsaw ♟ chess_pawn 🎲 game_die 🪄 magic_wand 🟢 large_green_circle 🔵 large_blue_circle
🔴 red_circle 🟡 large_yellow_circle 🟣 large_purple_circle 🟠 large_orange_circle ↪ arrow_right_hook 👁 eye ⚠ warning`;

const NAMES = new Map([...LIST.matchAll(/(\S+) (\S+)/g)].map(([, emoji = '', name = '']) => [bare(emoji), name]));

/** Without the character that asks for a coloured picture. */
function bare(emoji: string): string {
  return emoji.trim().replaceAll('\uFE0F', '');
}
