/** What the browser’s history, links, keys and downloads do; runs before Streamlit's client starts. */

import { showWayBack } from "../classroom/guest.js";
import { keepChosenOptions } from "./chosen_options.js";
import { tickFinishedLessons } from "./finished_lessons.js";
import { keepOneEntryPerChoice } from "./history.js";
import { openLinksInPlace } from "./links.js";
import { keepPageGroups } from "./page_groups.js";
import { markPageParts } from "./page_parts.js";
import { closeMenuOnChoice } from "./phone_menu.js";
import { obeyPresentationKeys } from "./presentation_keys.js";
import { continueLastVisit } from "./return.js";
import { downloadTablesAsFiles } from "./table_files.js";

markPageParts(document); // first: what a page looks like rests on it
continueLastVisit(window);
keepPageGroups(document);
keepOneEntryPerChoice(window);
keepChosenOptions(window);
openLinksInPlace(window);
obeyPresentationKeys(window);
closeMenuOnChoice(window);
showWayBack(window);
downloadTablesAsFiles(window);
tickFinishedLessons(window);
