/* The door: every page loads this module, and each part starts only where its elements are. */
import { startChat } from "./chat.js";
import { startCitations } from "./citations.js";
import { startForms } from "./forms.js";
import { startKeys } from "./keys.js";
import { startNewChat } from "./newchat.js";
import { startPalette } from "./palette.js";
import { startRail } from "./rail.js";
import { startResults } from "./results.js";
import { startSides } from "./sides.js";
import { startTheme } from "./theme.js";
import { startTrouble } from "./trouble.js";
import { startUpload } from "./upload.js";

for (const start of [
  startTheme, startSides, startKeys, startPalette, startRail, startForms, startTrouble,
  startResults, startUpload, startCitations, startNewChat, startChat,
]) start();
