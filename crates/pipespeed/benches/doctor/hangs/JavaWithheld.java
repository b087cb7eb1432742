// The end of the output is withheld by sleep, in the background. Where the child ends before Java
// reads, Java takes what is there and goes on, so the child does something else meanwhile.
public class JavaWithheld {
    public static void main(String[] arguments) throws Exception {
        Process child = new ProcessBuilder("sh", "-c", "sleep 1000 & echo started; sleep 0.2").start();
        System.out.println(new String(child.getInputStream().readAllBytes()));
    }
}
