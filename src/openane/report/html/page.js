// Puts the parts of a profile on the page.
showTheme();
showHead();
showCompared();
showGraph();
showTimeline();
showMemory();
showTasks();
showHealth();
showOperations();
finishPage();
