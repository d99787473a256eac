console.log
